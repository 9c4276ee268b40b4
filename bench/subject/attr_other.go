//go:build !linux

package subject

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
