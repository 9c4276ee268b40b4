//go:build !unix

package launcher

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// There are no process groups here; only the engine itself can be ended.

func sessionAttr() *syscall.SysProcAttr { return nil }

func serviceAttr() *syscall.SysProcAttr { return nil }

func detachedAttr() *syscall.SysProcAttr { return nil }

func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

func signalGroup(pgid int, _ syscall.Signal) error {
	p, err := os.FindProcess(pgid)
	if err != nil {
		return err
	}
	return errors.Join(p.Kill(), p.Release())
}

func groupAlive(int) bool { return false }
