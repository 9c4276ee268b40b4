package subject

import "syscall"

// attributes puts a subject into a process group of its own, so that Ctrl-C reaches
// it through Stop alone, and has the kernel kill it if this process dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
