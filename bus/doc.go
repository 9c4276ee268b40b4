// Package bus connects a service to NATS, in this process or outside: typed messages
// on the topics of package wire, requests to its services, typed values in its
// tables, and news of the connection's state. It owns how messages travel, what
// happens to those that cannot be read, that nothing stale is sent after an
// interruption, and that nobody waits for a server that does not answer. It does not
// know what a message means.
//
// Every message may be lost: when the connection is gone, [Publish] and
// [Request] fail at once and keep nothing. Tables are different: a value is stored when [Bucket.Put]
// returns, and the process that put it puts it again should the bucket lose it. Where
// a value has several writers, [Versioned] stores what follows what they know.
package bus
