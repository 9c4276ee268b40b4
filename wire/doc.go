// Package wire is what services say to each other: subjects, messages as plain
// structs, the codes of errors, and the encoding of all that. Messages exist only
// for what is sent. It does not know the message bus that carries them.
package wire
