package launcher

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// watchdog is a process beside this one that ends the engines if this one cannot: it
// hears of every process group through a pipe, and when the pipe ends without a word
// of farewell, this process was killed. The kernel's parent-death signal reaches the
// engines alone, and only on Linux; their helpers are found by their group.
//
// A nil watchdog watches nothing. Its methods are safe for concurrent use.
type watchdog struct {
	argv []string
	log  *slog.Logger

	wg sync.WaitGroup // who follow its processes

	mu     sync.Mutex
	cmd    *exec.Cmd
	pipe   *os.File // to the running one, nil while there is none
	groups []int
	over   bool // stop was called
}

// newWatchdog starts argv, which is to call [Watch] with limit, its last argument. That
// it cannot be started is no reason not to start engines: the log tells.
func newWatchdog(argv []string, limit time.Duration, log *slog.Logger) *watchdog {
	if len(argv) == 0 {
		return nil
	}
	w := &watchdog{argv: append(slices.Clone(argv), limit.String()), log: log}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.startLocked(true)
	return w
}

// startLocked starts the process and tells it all it has to know. again says that
// another may follow it. w.mu is held.
func (w *watchdog) startLocked(again bool) {
	err := func() error {
		r, pipe, err := os.Pipe() // no other child inherits an end of it
		if err != nil {
			return err
		}
		cmd := exec.Command(w.argv[0], w.argv[1:]...)
		cmd.ExtraFiles = []*os.File{r}
		cmd.SysProcAttr = detachedAttr()
		err = cmd.Start()
		_ = r.Close() // the child has its own copy
		if err != nil {
			_ = pipe.Close()
			return err
		}
		w.cmd, w.pipe = cmd, pipe
		return nil
	}()
	if err != nil {
		w.log.Warn("there is no watchdog: helpers of engines would outlive this process if it were killed", "error", err)
		return
	}
	for _, pgid := range w.groups {
		w.tellLocked("%+d\n", pgid)
	}
	w.wg.Go(func() { w.follow(w.cmd, w.pipe, again) })
}

// follow waits for the end of a watchdog, which nobody but stop is to bring about.
func (w *watchdog) follow(cmd *exec.Cmd, pipe *os.File, again bool) {
	_ = cmd.Wait() // how it ended is in ProcessState
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pipe = nil
	_ = pipe.Close() // nobody reads it
	if w.over {
		return
	}
	w.log.Warn("the watchdog of the engines has ended", "pid", cmd.Process.Pid, "state", describe(cmd.ProcessState), "another", again)
	if again {
		w.startLocked(false)
	}
}

// add has the group ended should this process be killed.
func (w *watchdog) add(pgid int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = append(w.groups, pgid)
	w.tellLocked("%+d\n", pgid)
}

// remove forgets a group that is empty: its number may belong to others.
func (w *watchdog) remove(pgid int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = slices.DeleteFunc(w.groups, func(g int) bool { return g == pgid })
	w.tellLocked("%+d\n", -pgid)
}

// tellLocked writes to the watchdog, if there is one. w.mu is held.
func (w *watchdog) tellLocked(format string, args ...any) {
	if w.pipe != nil {
		_, _ = fmt.Fprintf(w.pipe, format, args...) // if it has ended, follow knows
	}
}

// stop takes the watchdog leave. It returns when the process is gone, which is killed
// after limit.
func (w *watchdog) stop(limit time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.over = true
	w.tellLocked("%s\n", farewell)
	cmd, running := w.cmd, w.pipe != nil
	w.mu.Unlock()
	if running {
		late := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() }) // gone is what was wanted
		defer late.Stop()
	}
	w.wg.Wait()
}
