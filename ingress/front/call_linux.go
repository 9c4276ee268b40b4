//go:build !race

package front

import (
	"syscall"
	"unsafe"
)

// readNow and writeNow are one system call on a descriptor that does not block.
func readNow(fd uintptr, p []byte) (int, syscall.Errno)  { return call(syscall.SYS_READ, fd, p) }
func writeNow(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.SYS_WRITE, fd, p) }

func call(trap, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
