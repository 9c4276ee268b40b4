package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// programs is the folder of the programs under test.
var programs string

// running bounds how many tests run at a time: each has some processes, and the
// machines of CI have two cores. They wait more than they compute.
var running = make(chan struct{}, 3)

// parallel lets a test run beside others.
func parallel(t *testing.T) {
	t.Parallel()
	running <- struct{}{}
	t.Cleanup(func() { <-running })
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the programs, so that no stale one is tested, and with the race
// detector if the tests have it.
func run(m *testing.M) int {
	if signal.Ignored(syscall.SIGHUP) { // under nohup the programs would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	dir, err := os.MkdirTemp("", "smg-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	args := []string{"build", "-o", dir}
	if underRace {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/smg", "./cmd/smg-ingress", "./cmd/smg-selector", "./cmd/smg-sim")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "..", os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the programs:", err)
		return 1
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func program(name string) string { return filepath.Join(programs, name) }
