// Package launcher runs inference engines as child processes: it builds their
// command lines, gives them ports, starts each in a session of its own, passes
// their output on, waits until they answer, watches them, and takes them down
// again without leaving anything behind.
//
// It owns processes and nothing else. It must not know what is done with the
// engines: no requests, no policies, no registry, no message bus. Who calls it
// gets the engines' addresses and roles, in the order of their start, and decides.
//
// A [Group] is the whole of one launch. Its life is New, Start, WaitReady, Run,
// Stop; Stop is needed after every successful Start and may be called at any
// time, from any goroutine, more than once.
package launcher
