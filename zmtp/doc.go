// Package zmtp speaks the protocol of ZeroMQ, ZMTP 3.1 with the mechanism NULL, as far
// as it takes to read what a PUB socket publishes and to ask a ROUTER socket: [Conn] is
// one connection to one peer, made by [Subscribe] or [Dial]. For programs that publish,
// and for tests, there are [Publisher] and [Serve].
//
// A connection that breaks is not made anew here: whoever reads has to know. What a peer
// sends is bounded by [Config]; a peer that says nothing is asked whether it is there.
//
// The package moves frames. It does not know what is in them.
package zmtp
