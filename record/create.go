package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"smg/worker"
)

const gzipExt = ".gz"

// compressed says whether a file of this name is compressed.
func compressed(name string) bool { return strings.HasSuffix(name, gzipExt) }

// Name is what the n-th recording, from 1, of a leg is called where a user asks for
// one called name: the same on the regular leg; on others the leg's name stands
// before the extension, and from the second on its number.
func Name(name string, leg worker.Leg, n int) string {
	ext := ""
	for _, e := range [...]string{gzipExt, ".jsonl", ".json"} {
		if stem, found := strings.CutSuffix(name, e); found {
			ext, name = e+ext, stem
		}
	}
	if leg != worker.Regular {
		name += "." + leg.String()
	}
	if n > 1 {
		name += "." + strconv.Itoa(n)
	}
	return name + ext
}

// maxNumber is how many recordings of one name there may be.
const maxNumber = 10_000

// create makes a file that nobody has yet: a service that is started again does not
// overwrite what it has recorded.
func create(name string, leg worker.Leg) (w io.WriteCloser, path string, err error) {
	for n := 1; n <= maxNumber; n++ {
		path = Name(name, leg, n)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, path, fmt.Errorf("creating a recording: %w", err)
		}
		return f, path, nil
	}
	return nil, path, fmt.Errorf("creating a recording: there are %d of the name %s", maxNumber, name)
}

// Writable says why recordings of this name cannot be made, or nil. It leaves nothing
// behind.
func Writable(name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".smg-*")
	if err != nil {
		return fmt.Errorf("creating a recording: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
