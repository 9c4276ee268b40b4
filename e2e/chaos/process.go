package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
)

// process is a program of the site: it can be killed, stopped, and started again with
// the same command line. Its methods may be called by one goroutine at a time.
type process struct {
	name string
	host *host
	env  []string
	args []string // the program first

	mu     sync.Mutex
	output bytes.Buffer // of all its lives

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has been waited for
}

// Write adds to what the process has said.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// start starts it, for the first time or again.
func (p *process) start() error {
	fmt.Fprintf(p, "--- start: %s\n", strings.Join(p.args, " "))
	argv := p.host.command(p.args)
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(plainEnvironment(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = p, p, childAttributes()
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		err := cmd.Wait()
		fmt.Fprintf(p, "--- end: %v\n", err)
	}(p.cmd, p.ended)
	return nil
}

// plainEnvironment is the environment without what would change the programs.
func plainEnvironment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SMG_") {
			env = append(env, v)
		}
	}
	return append(env, "NO_COLOR=1", "GORACE=atexit_sleep_ms=0")
}

func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %s to %s: %w", s, p.name, err)
	}
	return nil
}

// kill ends it as a crash does, and waits until it is gone.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// running says whether it has been started and has not ended.
func (p *process) running() bool {
	if p.ended == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// alarming are words that no log may have.
var alarming = regexp.MustCompile(`DATA RACE|panic:|fatal error:`)

// alarm is what its log says that must not be there.
func (p *process) alarm() error {
	for line := range strings.Lines(p.said()) {
		if alarming.MatchString(line) {
			return fmt.Errorf("%s said: %s", p.name, strings.TrimSpace(line))
		}
	}
	return nil
}

// keep writes its log into a folder.
func (p *process) keep(folder string) error {
	return os.WriteFile(filepath.Join(folder, p.name+".log"), []byte(p.said()), 0o644)
}

// stop ends it in good order. Whoever does not end in time is killed, which is an
// error, and so is any exit code but 0.
func (p *process) stop(patience <-chan struct{}) error {
	if !p.running() {
		return nil
	}
	if err := errors.Join(p.signal(syscall.SIGCONT), p.signal(syscall.SIGTERM)); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-patience:
		return errors.Join(fmt.Errorf("%s does not end", p.name), p.kill())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %d", p.name, code)
	}
	return nil
}
