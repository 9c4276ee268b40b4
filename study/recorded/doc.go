// Package recorded makes workloads of recordings: when requests came, how long they
// were and which of them begin alike is as it was recorded; what they say is made up
// from the digests, unless the recording has it. How long answers were is not in a
// recording and is guessed from how long calls took.
//
// It knows the files and the site in virtual time, and no policy in particular.
package recorded
