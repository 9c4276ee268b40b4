//go:build unix && !linux

package launcher

import (
	"errors"
	"os/exec"
	"syscall"
)

// sessionAttr starts a child in a new session. There is no parent-death signal
// here: only the watchdog ends engines whose launcher is killed.
func sessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func serviceAttr() *syscall.SysProcAttr { return sessionAttr() }

func detachedAttr() *syscall.SysProcAttr { return sessionAttr() }

// awaitExit returns when the child has exited. It reaps it as well, so a group
// signal that comes right after may be late.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

func signalGroup(pgid int, sig syscall.Signal) error { return syscall.Kill(-pgid, sig) }

func groupAlive(pgid int) bool { return !errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) }
