// Package legs is the selector service of one leg. It answers who serves a request
// ([Service.Select]) from what it folds of the bus, and it keeps those workers that
// it is ranked first for: it probes them, polls their loads and publishes what it
// finds. It follows the KV-cache events of all of them, where the policy reads those. It does not know who asks, what a request's body holds, or how an engine is
// spoken to.
//
// State and its owner: the registry, the fold and the ranking are safe for
// concurrent use and are fed by the bus's callbacks; the keepers belong to
// Service.mu. One loop does what time brings, another one sends the load polls, a third one
// decides whose events are followed; each probe, each poll and each stream of events is a
// goroutine of its own.
package legs
