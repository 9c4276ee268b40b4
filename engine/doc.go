// Package engine talks to inference engines. [Client] is the HTTP/1.1 client
// of the request path: a connection pool per [Target], one write for head and
// body, strict framing, bounded memory, and an end of the caller's context
// that closes the connection at once, whatever it is doing. It exists because
// the client side of net/http costs a gateway more than everything else
// together. [Prober] asks an engine who it is, whether it is well and how much
// it has to do, with the standard client, for nothing there is hot; a
// [LoadSource] remembers which way one engine tells its load. The package
// carries bytes: it does not know legs, plans, policies, retries beyond its one
// free re-send, or the message bus.
package engine
