package flags

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// setPath takes the path of a file or folder. An empty one is that of a script whose
// variable is not set, and would do nothing in silence.
func setPath(field func(*Serve) *string) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		if v == "" {
			return &badValue{"a path is needed", "give a path, or leave the flag out"}
		}
		*field(s) = v
		return nil
	}
}

// checkFolder refuses a folder that cannot be made, or not be written to. It makes none.
func (c *checker) checkFolder(name, dir string) {
	if dir == "" {
		return
	}
	if err := makeable(dir); err != nil {
		c.add(name, dir, "give a folder that can be made and written to", "%s", err.Error())
	}
}

// makeable says why there can be no folder dir, or nil.
func makeable(dir string) error {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at):
			continue
		case err != nil:
			return fmt.Errorf("the folder cannot be used: %w", err)
		case !info.IsDir():
			return fmt.Errorf("%s is not a folder", at)
		}
		return writable(at)
	}
}

// checkRecording refuses a file of recordings that cannot be made.
func (c *checker) checkRecording(file string) {
	if file == "" {
		return
	}
	dir := filepath.Dir(file)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no folder %s", dir)
	case err != nil:
		err = fmt.Errorf("the folder cannot be used: %w", err)
	case !info.IsDir():
		err = fmt.Errorf("%s is not a folder", dir)
	default:
		err = writable(dir)
	}
	if err != nil {
		c.add("record", file, "make the folder, or give a file in another", "%s", err.Error())
	}
}

func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("the folder %s cannot be written to: %w", dir, err)
	}
	return nil
}
