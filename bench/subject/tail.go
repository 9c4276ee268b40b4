package subject

import "sync"

// tailSize is how much of a subject's output is kept.
const tailSize = 4 << 10

// tail keeps the end of what is written to it. Its zero value is empty.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps the end of p and what came before.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - tailSize; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	return len(p), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
