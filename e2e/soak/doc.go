// Command soak puts a gateway under steady load for a long time and says whether
// anything of it grows. Engines fail as requests ask them to, by a word in their text,
// so that every request has one right outcome; some clients leave. Any other outcome,
// memory, goroutines or descriptors that grow, and a count that does not come back to
// zero are errors.
package main
