package launcher

import (
	"os/exec"
	"runtime"
)

// spawner starts processes from one operating system thread. The parent-death
// signal follows the thread that started a child, not the process: a child started
// from an ordinary goroutine would be ended whenever the runtime retires a thread.
type spawner struct {
	requests chan spawnRequest
	done     chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan error
}

// newSpawner begins the goroutine that holds the thread; close ends it.
func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *spawner) run() {
	defer close(s.done)
	runtime.LockOSThread()
	// Unlocked before the end: a goroutine that ends locked takes its thread along.
	defer runtime.UnlockOSThread()
	for r := range s.requests {
		r.result <- r.cmd.Start()
	}
}

func (s *spawner) start(cmd *exec.Cmd) error {
	r := spawnRequest{cmd: cmd, result: make(chan error)}
	s.requests <- r
	return <-r.result
}

// close gives the thread back. No child may be running any more.
func (s *spawner) close() {
	close(s.requests)
	<-s.done
}
