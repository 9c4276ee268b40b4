package procstat

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Proc is a mounted proc file system. It is safe for concurrent use.
type Proc struct{ root string }

// System is the proc file system of this machine.
func System() Proc { return Proc{root: "/proc"} }

// Reading is what a process and all its descendants had used at one moment.
type Reading struct {
	tasks map[int]time.Duration // by thread id: time on a CPU
	ticks time.Duration         // user and system time, of ended threads and children too
}

// tick is the unit of /proc/<pid>/stat: USER_HZ, 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Read reads what pid and its descendants have used until now. Threads that start
// or end meanwhile are no error; a pid that does not exist is one.
func (p Proc) Read(pid int) (Reading, error) {
	family, err := p.family(pid)
	if err != nil {
		return Reading{}, fmt.Errorf("reading CPU time of process %d: %w", pid, err)
	}
	r := Reading{tasks: make(map[int]time.Duration)}
	for _, s := range family {
		err := p.addTasks(s.pid, r.tasks)
		if err != nil && (s.pid == pid || !gone(err)) {
			return Reading{}, fmt.Errorf("reading CPU time of process %d: %w", s.pid, err)
		}
		r.ticks += s.used
	}
	return r, nil
}

// Used returns how much of a CPU was used between two readings of one process. It
// is exact unless a thread or child of the earlier reading has ended: then it is
// what the kernel counts in ticks of 10 ms.
func (r Reading) Used(since Reading) time.Duration {
	var used time.Duration
	for _, d := range r.tasks {
		used += d
	}
	for id, d := range since.tasks {
		if _, lives := r.tasks[id]; !lives {
			return r.ticks - since.ticks
		}
		used -= d
	}
	return used
}

// Threads is how many threads there were.
func (r Reading) Threads() int { return len(r.tasks) }

// addTasks adds the threads of pid.
func (p Proc) addTasks(pid int, to map[int]time.Duration) error {
	dir := filepath.Join(p.root, strconv.Itoa(pid), "task")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name(), "schedstat"))
		if err != nil {
			if gone(err) {
				continue
			}
			return err
		}
		first, _, _ := bytes.Cut(b, []byte{' '})
		ns, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			return fmt.Errorf("schedstat of thread %d: %w", id, err)
		}
		to[id] = time.Duration(ns)
	}
	return nil
}

// status is what /proc/<pid>/stat says of a process.
type status struct {
	pid, parent int
	used        time.Duration
}

// family returns root and its descendants.
func (p Proc) family(root int) ([]status, error) {
	first, err := p.status(root)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(p.root)
	if err != nil {
		return nil, err
	}
	children := make(map[int][]status)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == root {
			continue
		}
		s, err := p.status(pid)
		if err != nil {
			if gone(err) {
				continue
			}
			return nil, err
		}
		children[s.parent] = append(children[s.parent], s)
	}
	family := []status{first}
	for i := 0; i < len(family); i++ {
		family = append(family, children[family[i].pid]...)
	}
	return family, nil
}

var errStat = errors.New("stat is not as the kernel documents it")

// Fields of stat behind the command's name, counted from 0: proc_pid_stat(5) counts
// from 1 and has two before them.
const (
	fieldParent = 1
	fieldUser   = 11 // and system time, and both of the children that were waited for
	fieldsUsed  = 4
)

func (p Proc) status(pid int) (status, error) {
	b, err := os.ReadFile(filepath.Join(p.root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return status{}, err
	}
	// The command's name may contain anything, brackets too.
	end := bytes.LastIndexByte(b, ')')
	fields := bytes.Fields(b[end+1:])
	if end < 0 || len(fields) < fieldUser+fieldsUsed {
		return status{}, errStat
	}
	s := status{pid: pid}
	if s.parent, err = strconv.Atoi(string(fields[fieldParent])); err != nil {
		return status{}, errStat
	}
	for _, f := range fields[fieldUser : fieldUser+fieldsUsed] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return status{}, errStat
		}
		s.used += time.Duration(n) * tick
	}
	return s, nil
}

// gone says whether what was read has ended meanwhile.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoProcess)
}
