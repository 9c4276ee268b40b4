package main

import (
	"fmt"
	"os"
	"strconv"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/version"
)

// What the Python package tells of itself. It is meant for this process alone.
const (
	launcherVersion = "SMG_LAUNCHER_VERSION"
	// launcherPID is the parent, if this process is to stop with it.
	launcherPID = "SMG_LAUNCHER_PID"
)

// heedLauncher refuses to work for a Python package of another version, and has this
// process stop when the package's process is killed, if it stays one.
func heedLauncher() error {
	theirs, pid := os.Getenv(launcherVersion), os.Getenv(launcherPID)
	for _, name := range []string{launcherVersion, launcherPID} {
		if err := os.Unsetenv(name); err != nil {
			return fmt.Errorf("clearing %s: %w", name, err)
		}
	}
	if theirs != "" && theirs != version.String() {
		return &flags.Fault{
			What: fmt.Sprintf("these programs are version %s, the Python package smg is %s", version.String(), theirs),
			Hint: "install the package again, or have SMG_BIN_DIR name programs of its version",
			Code: flags.ExitFailure,
		}
	}
	if parent, err := strconv.Atoi(pid); err == nil && parent == os.Getppid() {
		return stopWithParent(parent)
	}
	return nil
}
