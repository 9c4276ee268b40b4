//go:build unix

package procstat

import "syscall"

// errNoProcess is what reading a file of an ended process gives.
const errNoProcess = syscall.ESRCH
