// Package worker holds what is known of the fleet: who exists ([Registry]), who
// can be chosen ([Pool]), how much each one has to do ([Load]; [LeaseWriter] and
// [Fold] are the two ends of the stream that says so), what its keeper says about
// it ([Record], [Keeper]) and which selector replica answers for what ([Ranking]).
//
// Everything here is a value that is fed events and the time: Apply(event, now).
// There are no goroutines, no clock, no network and no HTTP in this package, so
// the rules that keep a fleet's counts right can be run, doubled, reordered and
// delayed in a test. It does not know how messages travel (package bus), how they
// look on the wire (package wire) or how a worker is chosen (package policy).
//
// Lock order: Registry.mu, then Pool.mu, then Fold.mu. Nothing is called back
// under Fold.mu. The other locks here are held alone.
package worker
