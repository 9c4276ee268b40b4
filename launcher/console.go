package launcher

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"
)

const (
	clearBelow = "\x1b[J"
	colorReset = "\x1b[0m"
)

// Console shares one stream among several writers, line by line, and on a terminal
// keeps a block of status lines below everything else. Give it to a logger as well, so
// that log lines and the block do not run into each other. It is safe for concurrent
// use.
type Console struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	size     func() (width, height int) // in characters, as it is now
	status   []string                   // as it was written
	also     io.Writer                  // nil: nobody
}

// NewConsole writes to w. terminal says that w understands the control sequences
// that the status lines need.
func NewConsole(w io.Writer, terminal bool) *Console {
	c := &Console{w: w, terminal: terminal}
	c.size = func() (int, int) {
		if f := c.file(); f != nil {
			if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
				return width, height
			}
		}
		return 80, 24
	}
	return c
}

// Copy has everything that is written, but for the status line, written to w as well. Call
// it before anything else.
func (c *Console) Copy(w io.Writer) { c.also = w }

// Write passes p, which should end in a newline, on as a whole.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.also != nil {
		_, _ = c.also.Write(p) // it tells of faults itself
	}
	if len(c.status) == 0 {
		return c.w.Write(p)
	}
	// One write, so that a slow terminal shows no gap where the block was.
	out := []byte(c.eraseLocked())
	out = append(out, p...)
	out = append(out, c.drawLocked(c.status)...)
	if _, err := c.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// setStatus replaces the status lines, each cut to the width of the terminal; none
// removes them. Without a terminal it does nothing and says so.
func (c *Console) setStatus(lines ...string) bool {
	if !c.terminal {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(lines, c.status) {
		return true
	}
	_, _ = io.WriteString(c.w, c.eraseLocked()+c.drawLocked(lines)) // nobody is left to tell
	return true
}

// eraseLocked takes the block off the screen. The cursor is behind its last character;
// in a terminal that has become narrower its lines take several rows each.
func (c *Console) eraseLocked() string {
	if len(c.status) == 0 {
		return ""
	}
	width, _ := c.size()
	rows := 0
	for _, line := range c.status {
		rows += max(1, (cells(line)+width-1)/width)
	}
	if rows == 1 {
		return "\r" + clearBelow
	}
	return fmt.Sprintf("\r\x1b[%dA%s", rows-1, clearBelow)
}

// drawLocked writes the block where the cursor is. A line never reaches the last
// column, where terminals differ in what comes next.
func (c *Console) drawLocked(lines []string) string {
	width, _ := c.size()
	cut := make([]string, len(lines))
	for i, line := range lines {
		cut[i] = clip(line, width-1)
	}
	c.status = cut
	return strings.Join(cut, "\r\n")
}

// file is the open file behind the console, or nil.
func (c *Console) file() *os.File {
	f, _ := c.w.(*os.File)
	return f
}

// clip cuts s to n columns of a terminal.
func clip(s string, n int) string {
	if cells(s) <= n {
		return s
	}
	var out strings.Builder
	room := n - 1 // for the ellipsis
	for _, r := range s {
		if room -= runeCells(r); room < 0 {
			break
		}
		out.WriteRune(r)
	}
	return out.String() + "…"
}

// cells is how many columns of a terminal s takes, at most: what may be two columns
// wide counts as two.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

func runeCells(r rune) int {
	switch {
	case r < 0x1100, r >= 0x1160 && r < 0x2300, r >= 0x2500 && r < 0x2600: // the last are bars and boxes
		return 1
	}
	return 2
}
