// Package legs is the selector service of one leg. It answers who serves a request
// ([Service.Select]) from what it folds of the bus, and it keeps those workers that
// it is ranked first for: it probes them, polls their loads and publishes what it
// finds. It does not know who asks, what a request's body holds, or how an engine is
// spoken to.
//
// State and its owner: the registry, the fold and the ranking are safe for
// concurrent use and are fed by the bus's callbacks; the keepers belong to
// Service.mu. One loop does what time brings, another one sends the load polls; each
// probe and each poll is a goroutine of its own.
package legs
