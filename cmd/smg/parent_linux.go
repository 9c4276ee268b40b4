package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// stopWithParent has the kernel send SIGTERM to this process when the thread that
// started it is gone.
func stopWithParent(parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("asking for a signal at the parent's end: %w", err)
	}
	if os.Getppid() != parent { // it has ended meanwhile
		return unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return nil
}
