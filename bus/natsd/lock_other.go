//go:build !unix

package natsd

import (
	"os"
	"path/filepath"
)

// lock opens the file that keeps other processes off dir where the system can say so.
func lock(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
}
