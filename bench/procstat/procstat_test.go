package procstat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// write makes /proc/<pid> with threads that have used so many nanoseconds.
func write(t *testing.T, root string, pid, parent, ticks int, threads map[int]int) {
	t.Helper()
	dir := filepath.Join(root, strconv.Itoa(pid))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for id, ns := range threads {
		task := filepath.Join(dir, "task", strconv.Itoa(id))
		if err := os.MkdirAll(task, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(task, "schedstat"), fmt.Appendf(nil, "%d 5 9\n", ns), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stat := fmt.Appendf(nil, "%d (a ) (b) S %d 1 1 0 -1 4194560 0 0 0 0 %d 1 1 1 20 0 1 0\n", pid, parent, ticks-3)
	if err := os.WriteFile(filepath.Join(dir, "stat"), stat, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestReading(t *testing.T) {
	for _, tt := range []struct {
		name    string
		later   func(t *testing.T, root string)
		want    time.Duration
		threads int
	}{
		{
			name:    "nothing_happened",
			later:   func(*testing.T, string) {},
			want:    0,
			threads: 4,
		},
		{
			name: "a_thread_of_each_ran",
			later: func(t *testing.T, root string) {
				write(t, root, 100, 1, 10, map[int]int{100: 1500, 101: 2000})
				write(t, root, 201, 200, 10, map[int]int{201: 47})
			},
			want:    507,
			threads: 4,
		},
		{
			name: "a_thread_and_a_child_began",
			later: func(t *testing.T, root string) {
				write(t, root, 100, 1, 10, map[int]int{100: 1000, 101: 2000, 102: 30})
				write(t, root, 300, 100, 10, map[int]int{300: 3})
			},
			want:    33,
			threads: 6,
		},
		{
			name: "a_thread_ended",
			later: func(t *testing.T, root string) {
				write(t, root, 100, 1, 14, map[int]int{100: 1500})
			},
			want:    4 * tick,
			threads: 3,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, 1, 0, 10, map[int]int{1: 77})
			write(t, root, 100, 1, 10, map[int]int{100: 1000, 101: 2000})
			write(t, root, 200, 100, 10, map[int]int{200: 10})
			write(t, root, 201, 200, 10, map[int]int{201: 40})
			write(t, root, 900, 1, 10, map[int]int{900: 5})
			p := Proc{root: root}
			before, err := p.Read(100)
			if err != nil {
				t.Fatal(err)
			}
			tt.later(t, root)
			after, err := p.Read(100)
			if err != nil {
				t.Fatal(err)
			}
			if got := after.Used(before); got != tt.want {
				t.Errorf("Used = %d ns, want %d ns", got, tt.want)
			}
			if got := after.Threads(); got != tt.threads {
				t.Errorf("Threads = %d, want %d", got, tt.threads)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string
		text string
	}{
		{name: "no_such_process"},
		{name: "stat_without_name", file: "7/stat", text: "7 S 1"},
		{name: "short_stat", file: "7/stat", text: "7 (a) S 1 2 3"},
		{name: "no_number", file: "7/stat", text: "7 (a) S x 1 1 0 -1 0 0 0 0 0 1 1 1 1 20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if tt.file != "" {
				write(t, root, 7, 1, 10, map[int]int{7: 1})
				if err := os.WriteFile(filepath.Join(root, tt.file), []byte(tt.text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := (Proc{root: root}).Read(7); err == nil {
				t.Error("Read succeeded, want an error")
			}
		})
	}
}

func TestResident(t *testing.T) {
	for _, tt := range []struct {
		name, status string
		want         int64 // -1 for an error
	}{
		{"as_the_kernel_writes_it", "Name:\ta\nVmHWM:\t  300 kB\nVmRSS:\t  208 kB\nThreads:\t3\n", 208 << 10},
		{"another_unit", "VmRSS:\t 2 MB\n", -1},
		{"no_number", "VmRSS:\t x kB\n", -1},
		{"a_kernel_thread", "Name:\ta\n", -1},
		{"no_such_process", "", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if tt.status != "" {
				write(t, root, 7, 1, 10, map[int]int{7: 1})
				if err := os.WriteFile(filepath.Join(root, "7", "status"), []byte(tt.status), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := (Proc{root: root}).Resident(7)
			if err != nil {
				got = -1
			}
			if got != tt.want {
				t.Errorf("Resident = %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

// TestSystem reads real processes: this one, and a child that computes.
func TestSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux's")
	}
	child := exec.Command("sh", "-c", "while :; do :; done")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed: that is its error
	}()
	p := System()
	before, err := p.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		after, err := p.Read(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		of, err := p.Read(child.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if used := of.Used(Reading{}); used > 20*time.Millisecond && after.Used(before) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no CPU time was seen to be used")
		}
		time.Sleep(time.Millisecond)
	}
}
