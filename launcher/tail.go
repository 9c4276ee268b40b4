package launcher

import "sync"

// tailLines is how many lines of an engine's output are kept for reports.
const tailLines = 200

// tail keeps the last lines of an engine's output.
type tail struct {
	mu    sync.Mutex
	lines []string // a ring once it is full
	next  int
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) < tailLines {
		t.lines = append(t.lines, line)
		return
	}
	t.lines[t.next] = line
	t.next = (t.next + 1) % tailLines
}

// last returns up to n lines, oldest first.
func (t *tail) last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, len(t.lines))
	out := make([]string, 0, n)
	for i := len(t.lines) - n; i < len(t.lines); i++ {
		out = append(out, t.lines[(t.next+i)%len(t.lines)])
	}
	return out
}
