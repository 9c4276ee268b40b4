//go:build !race

package engine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func rawRead(fd int, p []byte) (int, unix.Errno) { return rawCall(unix.SYS_READ, fd, p) }

func rawWrite(fd int, head, body []byte) (int, unix.Errno) {
	switch {
	case len(body) == 0:
		return rawCall(unix.SYS_WRITE, fd, head)
	case len(head) == 0:
		return rawCall(unix.SYS_WRITE, fd, body)
	}
	parts := [2]unix.Iovec{{Base: &head[0]}, {Base: &body[0]}}
	parts[0].SetLen(len(head))
	parts[1].SetLen(len(body))
	return result(unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&parts)), uintptr(len(parts))))
}

func rawCall(trap uintptr, fd int, p []byte) (int, unix.Errno) {
	return result(unix.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

func result(n, _ uintptr, errno unix.Errno) (int, unix.Errno) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
