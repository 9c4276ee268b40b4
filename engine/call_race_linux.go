//go:build race

package engine

import "golang.org/x/sys/unix"

// With the race detector, the usual calls: they tell it what the kernel writes.

func rawRead(fd int, p []byte) (int, unix.Errno) { return result(unix.Read(fd, p)) }

func rawWrite(fd int, head, body []byte) (int, unix.Errno) {
	return result(unix.Writev(fd, [][]byte{head, body}))
}

func result(n int, err error) (int, unix.Errno) {
	errno, _ := err.(unix.Errno) //nolint:errorlint // a system call returns it bare
	if errno != 0 {
		return 0, errno
	}
	return n, 0
}
