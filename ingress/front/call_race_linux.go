//go:build race

package front

import (
	"errors"
	"syscall"
)

// With the race detector, the standard calls: they tell it what the kernel writes,
// and that a write comes before the read that gets its bytes.

func readNow(fd uintptr, p []byte) (int, syscall.Errno)  { return call(syscall.Read, fd, p) }
func writeNow(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.Write, fd, p) }

func call(f func(int, []byte) (int, error), fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := f(int(fd), p)
		switch errno := syscall.Errno(0); {
		case err == nil:
			return n, 0
		case errors.As(err, &errno) && errno != syscall.EINTR:
			return 0, errno
		}
	}
}
