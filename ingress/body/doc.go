// Package body reads the JSON body of a client's request once, as raw bytes,
// and edits it by splicing. Parse checks every byte in one pass (RFC 8259, plus
// a depth limit) and keeps where the few top-level keys stand that routing needs;
// Check functions hold the rules of the single routes; Edit and Normalize build
// the body for a worker without decoding it, so that numbers, whitespace, key
// order and unknown keys arrive as they were sent. Text, Tokens and Partition
// functions return what routing reads of a body, one for each route, again without
// decoding it. The package must not know HTTP, status codes, workers or policies:
// errors carry a Kind, and the caller maps it.
package body
