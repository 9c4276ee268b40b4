package procstat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Resident is how many bytes of memory a process has, without its children.
func (p Proc) Resident(pid int) (int64, error) {
	b, err := os.ReadFile(filepath.Join(p.root, strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("reading memory of process %d: %w", pid, err)
	}
	for line := range bytes.Lines(b) {
		rest, found := bytes.CutPrefix(line, []byte("VmRSS:"))
		if !found {
			continue
		}
		text, unit := bytes.CutSuffix(bytes.TrimSpace(rest), []byte(" kB"))
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || !unit {
			return 0, fmt.Errorf("reading memory of process %d: VmRSS is %q", pid, bytes.TrimSpace(rest))
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("reading memory of process %d: it has no VmRSS", pid)
}
