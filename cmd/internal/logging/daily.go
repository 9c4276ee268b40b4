package logging

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Daily writes to a file of each day (UTC) in a folder: smg.2026-08-01 and so on. What
// such files hold already stays. It is safe for concurrent use.
type Daily struct {
	dir string
	now func() time.Time
	err io.Writer // is told, once in a row, that the file cannot be written

	mu     sync.Mutex
	day    string
	file   *os.File
	failed bool
}

// NewDaily makes the folder and today's file. Faults from then on are told to err, and
// lines are lost, until the file can be written again.
func NewDaily(dir string, now func() time.Time, err io.Writer) (*Daily, error) {
	d := &Daily{dir: dir, now: now, err: err}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as folders of logs are
		return nil, fmt.Errorf("making the folder of logs: %w", err)
	}
	if err := d.turn(); err != nil {
		return nil, err
	}
	return d, nil
}

// turn opens today's file, if it is not open. d.mu is held, or d is new.
func (d *Daily) turn() error {
	day := d.now().UTC().Format(time.DateOnly)
	if d.file != nil && day == d.day {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(d.dir, "smg."+day), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // the operator names it
	if err != nil {
		return fmt.Errorf("opening a log file: %w", err)
	}
	if d.file != nil {
		err = d.file.Close()
	}
	d.day, d.file = day, f
	if err != nil {
		return fmt.Errorf("closing the log file of the day before: %w", err)
	}
	return nil
}

// Write implements [io.Writer]. It never fails: logs go elsewhere, too.
func (d *Daily) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.turn()
	if d.file != nil {
		_, wrote := d.file.Write(p)
		err = errors.Join(err, wrote)
	}
	if err != nil && !d.failed {
		_, _ = fmt.Fprintf(d.err, "error: the file of --log-dir %s cannot be written: %v\n", d.dir, err) // nobody is left to tell
	}
	d.failed = err != nil
	return len(p), nil
}

// Close closes the file.
func (d *Daily) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return err
}
