// Package record writes what a selector was asked, what it chose and what became of
// it to a file, and reads such files. Prompts are told by digests of their blocks, so
// that a reader sees which prompts begin alike and how long they are, but not what
// they say; keys by a hash whose secret is thrown away.
//
// A [Recorder] never delays and never fails whoever tells it something: what its disk
// does not keep up with is lost, and the file says how much that was. docs/replay.md
// describes the file.
//
// The package knows no policies, and not how requests or messages travel.
package record
