package launcher

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program finds what runs the engine: the interpreter, the first word of the user's
// command, or the engine's own executable.
func (c Config) program(b backend) (string, error) {
	switch {
	case b.python:
		return c.interpreter()
	case len(b.command) > 0:
		path, err := lookPath(b.command[0], c.Environ)
		if err != nil {
			return "", &LaunchError{
				what:   "the engine program was not found",
				detail: []string{"--engine-cmd " + b.command[0] + ": " + err.Error()},
				hint:   "begin --engine-cmd with the path of a program",
			}
		}
		return path, nil
	case c.EngineBin != "":
		path, err := lookPath(c.EngineBin, c.Environ)
		if err != nil {
			return "", &LaunchError{
				what:   "the engine program was not found",
				detail: []string{"--engine-bin " + c.EngineBin + ": " + err.Error()},
				hint:   "give --engine-bin the path of the engine's executable",
			}
		}
		return path, nil
	}
	find := lookPath
	if b.bundled {
		find = findBundled
	}
	path, err := find(b.program, c.Environ)
	if err == nil {
		return path, nil
	}
	where, hint := b.program+" is not on PATH", "install "+b.program+", or give its path with --engine-bin"
	if b.bundled {
		where = nowhere(b.program)
		hint = "set SMG_BIN_DIR to the folder that holds " + b.program + ", or give its path with --engine-bin"
	}
	return "", &LaunchError{
		what:   fmt.Sprintf("the engine program of --backend %s was not found", c.Backend),
		detail: []string{where},
		hint:   hint,
	}
}

// interpreter finds the Python that runs the engine. Whether the engine is installed
// there only the engine's start tells: to ask would take as long.
func (c Config) interpreter() (string, error) {
	name := c.pythonName()
	path, err := lookPath(name, c.Environ)
	if err == nil {
		return path, nil
	}
	where := "--engine-python " + name + ": " + err.Error()
	if c.Python == "" {
		where = name + " is not on PATH"
	}
	return "", &LaunchError{
		what:   fmt.Sprintf("the Python of --backend %s was not found", c.Backend),
		detail: []string{where},
		hint:   "give --engine-python the path of a Python that has " + c.Backend + " installed",
	}
}

// pythonName is the interpreter as the user names it.
func (c Config) pythonName() string {
	if c.Python != "" {
		return c.Python
	}
	return defaultPython
}

// defaultPython is looked for on PATH.
const defaultPython = "python3"

// Program finds a program that is shipped along with this one: beside it, then in
// SMG_BIN_DIR, then on PATH, both of environ.
func Program(name string, environ []string) (string, error) {
	path, err := findBundled(name, environ)
	if err != nil {
		return "", &LaunchError{
			what: "the program " + name + " was not found", detail: []string{nowhere(name)},
			hint: "set SMG_BIN_DIR to the folder that holds " + name, cause: err,
		}
	}
	return path, nil
}

func nowhere(name string) string {
	return name + " is neither beside this program, nor in SMG_BIN_DIR, nor on PATH"
}

func findBundled(name string, environ []string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		self = "" // the other places remain
	}
	if path, ok := bundledPath(name, self, environ); ok {
		return path, nil
	}
	return lookPath(name, environ)
}

// bundledPath looks for a program of ours: beside the executable self, whose
// symlinks are resolved since a package may link only the main program onto PATH,
// then in SMG_BIN_DIR.
func bundledPath(name, self string, environ []string) (string, bool) {
	var dirs []string
	if self != "" {
		if target, err := filepath.EvalSymlinks(self); err == nil {
			self = target
		}
		dirs = append(dirs, filepath.Dir(self))
	}
	if dir := envValue(environ, "SMG_BIN_DIR"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if executable(path) {
			return path, true
		}
	}
	return "", false
}

// lookPath is exec.LookPath over the PATH of environ.
func lookPath(name string, environ []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		if _, err := os.Stat(name); err != nil {
			return "", errors.Unwrap(err)
		}
		if !executable(name) {
			return "", errors.New("not an executable file")
		}
		return name, nil
	}
	for _, dir := range filepath.SplitList(envValue(environ, "PATH")) {
		if dir == "" {
			continue // the working directory is never searched by accident
		}
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// envValue is the value of the last entry for key, as a child would see it.
func envValue(environ []string, key string) string {
	for _, kv := range slices.Backward(environ) {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}
