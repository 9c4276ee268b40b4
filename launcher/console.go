package launcher

import (
	"io"
	"os"
	"sync"
)

const (
	clearLine  = "\r\x1b[K"
	colorReset = "\x1b[0m"
)

// Console shares one stream among several writers, line by line, and on a terminal
// keeps one status line below everything else. Give it to a logger as well, so that
// log lines and the status line do not run into each other. It is safe for
// concurrent use.
type Console struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	status   string
	also     io.Writer // nil: nobody
}

// NewConsole writes to w. terminal says that w understands the control sequences
// that the status line needs.
func NewConsole(w io.Writer, terminal bool) *Console {
	return &Console{w: w, terminal: terminal}
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
	if c.status == "" {
		return c.w.Write(p)
	}
	// One write, so that a slow terminal shows no gap where the status line was.
	out := make([]byte, 0, len(clearLine)+len(p)+len(c.status))
	out = append(out, clearLine...)
	out = append(out, p...)
	out = append(out, c.status...)
	if _, err := c.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// setStatus replaces the status line; "" removes it. Without a terminal it does
// nothing and says so.
func (c *Console) setStatus(s string) bool {
	if !c.terminal {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == c.status {
		return true
	}
	_, _ = io.WriteString(c.w, clearLine+s) // nobody is left to tell
	c.status = s
	return true
}

// file is the open file behind the console, or nil.
func (c *Console) file() *os.File {
	f, _ := c.w.(*os.File)
	return f
}
