// Package http1 is just enough of HTTP/1.1 for both ends of a benchmark: where the
// head of a message ends, and its body. It looks at no other field and checks
// nothing that the ends of a benchmark do not get wrong; it is no parser for input
// from strangers.
package http1
