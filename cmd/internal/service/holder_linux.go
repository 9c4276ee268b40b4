package service

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holder finds the process that listens on port, as far as /proc lets this user see.
func holder(port int) (name string, pid int, ok bool) {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			continue // not mounted, or no IPv6: the name is a courtesy
		}
		for _, inode := range listening(b, port) {
			sockets["socket:["+inode+"]"] = true
		}
	}
	if len(sockets) == 0 {
		return "", 0, false
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	if err != nil { // the pattern is well-formed
		return "", 0, false
	}
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil || !sockets[target] {
			continue // gone, or somebody else's
		}
		process := filepath.Dir(filepath.Dir(file))
		comm, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		if pid, err = strconv.Atoi(filepath.Base(process)); err == nil {
			return strings.TrimSpace(string(comm)), pid, true
		}
	}
	return "", 0, false
}

// listening returns the inodes of the sockets that listen on port, out of a table
// such as /proc/net/tcp.
func listening(table []byte, port int) (inodes []string) {
	const local, state, inode, stateListen = 1, 3, 9, "0A"
	suffix := fmt.Appendf(nil, ":%04X", port)
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) > inode && bytes.HasSuffix(f[local], suffix) && string(f[state]) == stateListen {
			inodes = append(inodes, string(f[inode]))
		}
	}
	return inodes
}
