// Package simctl is the control side of a simulated engine: the faults that
// can be switched on at run time, what can be read back (ledger, records), and
// a client for the control API under /_sim/. It knows the documents, not how
// an engine obeys them.
package simctl
