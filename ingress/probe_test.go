package ingress

import (
	"testing"

	"smg/worker"
)

// TestProbesTellOfTheirHeads: a probe that is answered well frees its half-open slot
// when the answer begins, and not when a long stream ends.
func TestProbesTellOfTheirHeads(t *testing.T) {
	for _, tt := range []struct {
		name   string
		probes bool
		head   string
		want   int // heads told of
	}{
		{"a probe's good head", true, sseHead, 1},
		{"a probe that is refused", true, "HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n", 0},
		{"a call that probes nothing", false, sseHead, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{pieces: []string{tt.head + chunk(event), chunk(done) + lastOne}, step: make(chan struct{})}
			g := start(t, []string{engineAt(t, s.serve)})
			g.selector.mu.Lock()
			g.selector.probes = tt.probes
			g.selector.mu.Unlock()
			c := g.dial()
			c.send(chat(streamBody))
			if tt.want > 0 { // in mid-stream
				within(t, patience, "the head to be told of", func() bool {
					g.selector.mu.Lock()
					defer g.selector.mu.Unlock()
					return len(g.selector.heads) == tt.want && g.selector.heads[0] != (worker.LeaseID{})
				})
				if g.selector.active() != 1 {
					t.Error("the call is not in flight any more")
				}
			}
			s.step <- struct{}{}
			c.answer()
			g.selector.mu.Lock()
			defer g.selector.mu.Unlock()
			if len(g.selector.heads) != tt.want {
				t.Errorf("told of %d heads, want %d", len(g.selector.heads), tt.want)
			}
		})
	}
}
