package launcher

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrBackend is returned for a backend that this version cannot start.
var ErrBackend = errors.New("backend is not supported yet")

// Names of the backends that can be started.
const (
	BackendSim      = "sim"
	BackendLlamaCPP = "llamacpp"
)

// Backends returns the names of the backends that can be started.
func Backends() []string { return []string{BackendSim, BackendLlamaCPP} }

// backend is how one kind of engine is started.
type backend struct {
	program    string // usual name of the program
	bundled    bool   // shipped beside this executable
	needsModel bool
	modelFile  bool // the model is a file on this machine
	owned      []string
	argv       func(model, host, port string) []string
}

func backendOf(name string) (backend, error) {
	switch name {
	case BackendSim:
		return backend{
			program: "smg-sim",
			bundled: true,
			owned:   []string{"--host", "--port", "--model"},
			argv: func(model, host, port string) []string {
				args := []string{"--host", host, "--port", port}
				if model != "" {
					args = append(args, "--model", model)
				}
				return args
			},
		}, nil
	case BackendLlamaCPP:
		return backend{
			program:    "llama-server",
			needsModel: true,
			modelFile:  true,
			owned:      []string{"--model", "-m", "--host", "--port"},
			argv: func(model, host, port string) []string {
				return []string{"--model", model, "--host", host, "--port", port, "--metrics"}
			},
		}, nil
	}
	return backend{}, fmt.Errorf("--backend %s: %w; use one of %s", name, ErrBackend, strings.Join(Backends(), ", "))
}

// CommandLine is the whole command line of the engine at p: program, the launcher's
// own flags, those of the engine's role, then what the user gives to such engines,
// without the owned ones. It fails for what cannot be started.
func (c Config) CommandLine(program string, p Place) ([]string, error) {
	b, err := backendOf(c.Backend)
	if err != nil {
		return nil, err
	}
	owned, err := c.owned(b)
	if err != nil {
		return nil, err
	}
	argv := append([]string{program}, b.argv(c.Model, c.Host, strconv.Itoa(p.Port))...)
	if c.HasRoles() {
		d, err := c.dialect()
		if err != nil {
			return nil, err
		}
		argv = append(argv, d.argv(p)...)
	}
	rest, _ := removeOwned(c.argsOf(p.Role), owned)
	return append(argv, rest...), nil
}

// owned are the flags that the launcher sets itself.
func (c Config) owned(b backend) ([]string, error) {
	if !c.HasRoles() {
		return b.owned, nil
	}
	d, err := c.dialect()
	if err != nil {
		return nil, err
	}
	return slices.Concat(b.owned, d.owned()), nil
}

// program finds the engine's executable.
func (c Config) program(b backend) (string, error) {
	if c.EngineBin != "" {
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
