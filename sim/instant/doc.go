// Package instant is an engine that costs next to nothing: it answers every
// inference request with bytes rendered beforehand, over a hand-written
// HTTP/1.1 loop, so that a benchmark measures what lies between the client and
// the engine. It has no scheduler, no faults and no control API, and reads of a
// request only what it needs to find its end and its "stream" member. It knows
// nothing of the other sim packages.
package instant
