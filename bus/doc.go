// Package bus connects a service to NATS: typed messages on the topics of package
// wire, typed values in its tables, and news of the connection's state. It owns
// how messages travel, what happens to those that cannot be read, and that nothing
// stale is sent after an interruption. It does not know what a message means.
//
// Every message may be lost: when the connection is gone, [Publish] fails at once
// and keeps nothing. Tables are different: a value is stored when [Bucket.Put]
// returns, and the process that put it puts it again should the bucket lose it.
package bus
