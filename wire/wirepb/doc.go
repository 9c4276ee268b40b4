// Package wirepb is the encoding of package wire's messages, generated from
// wire.proto. Only package wire imports it: everybody else speaks in wire's plain
// structs and knows nothing of protobuf.
package wirepb

//go:generate make -C ../.. proto
