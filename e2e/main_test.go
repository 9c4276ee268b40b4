package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// programs is the folder of the programs under test.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the programs, so that no stale one is tested, and with the race
// detector if the tests have it.
func run(m *testing.M) int {
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
	cmd := exec.Command("go", append(args, "./cmd/smg", "./cmd/smg-sim")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "..", os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the programs:", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func program(name string) string { return filepath.Join(programs, name) }
