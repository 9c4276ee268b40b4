// Package procstat tells how much CPU time a process and its children have used,
// as the kernel accounts it in /proc: to the nanosecond from the schedstat of every
// thread. It reads processes and never touches them.
package procstat
