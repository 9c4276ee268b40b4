//go:build linux

package load_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"smg/bench/load"
)

// TestPair: each request goes to both subjects, and is answered once both have.
func TestPair(t *testing.T) {
	const pause = 30 * time.Millisecond
	pong := func(w http.ResponseWriter) { _, _ = io.WriteString(w, "pong") }
	for _, tt := range []struct {
		name string
		// second is the other subject's n-th answer; the first says "pong" at once.
		second func(n int64, w http.ResponseWriter)
		least  time.Duration // that an answer takes
		failed map[error]int
	}{
		{name: "both", second: func(_ int64, w http.ResponseWriter) { pong(w) }},
		{name: "the_later_counts", least: pause, second: func(_ int64, w http.ResponseWriter) {
			time.Sleep(pause)
			pong(w)
		}},
		{name: "one_fails", failed: map[error]int{load.ErrStatus: 3}, second: func(n int64, w http.ResponseWriter) {
			if n <= 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			pong(w)
		}},
		{name: "one_is_lost", failed: map[error]int{load.ErrLost: 2}, second: func(n int64, w http.ResponseWriter) {
			if n <= 2 {
				panic(http.ErrAbortHandler)
			}
			pong(w)
		}},
		{name: "one_closes", second: func(_ int64, w http.ResponseWriter) {
			w.Header().Set("Connection", "close")
			pong(w)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var first, second atomic.Int64
			cfg := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				first.Add(1)
				pong(w)
			})
			other := serve(t, func(w http.ResponseWriter, _ *http.Request) { tt.second(second.Add(1), w) })
			cfg.Also, cfg.Body = []netip.AddrPort{other.Addr}, []byte("pong")
			res, err := dial(t, cfg).Open(t.Context(), every(5*time.Millisecond, 10))
			if err != nil {
				t.Fatal(err)
			}
			failed := 0
			for kind, n := range tt.failed {
				failed += n
				if res.Failed[kind] != n {
					t.Errorf("failed: %s; want %d × %v", res.Faults(), n, kind)
				}
			}
			if res.Sent != 10 || res.Answered != 10-failed || res.Errors() != failed {
				t.Errorf("sent %d, answered %d, failed: %s; want 10, %d", res.Sent, res.Answered, res.Faults(), 10-failed)
			}
			if failed == 0 && (first.Load() != 10 || second.Load() != 10) {
				t.Errorf("%d and %d requests came, want 10 each", first.Load(), second.Load())
			}
			if len(res.Latency) != res.Answered || len(res.FirstByte) != res.Answered {
				t.Errorf("%d latencies and %d first bytes of %d answers", len(res.Latency), len(res.FirstByte), res.Answered)
			}
			if res.Latency[0] < tt.least || res.FirstByte[0] < tt.least {
				t.Errorf("an answer after %v, its first byte after %v; want %v at least", res.Latency[0], res.FirstByte[0], tt.least)
			}
		})
	}
}

// TestPairSilent: an answer of one of two is no answer, and does not count for the
// next request.
func TestPairSilent(t *testing.T) {
	held := make(chan struct{})
	cfg := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "pong") })
	other := serve(t, func(http.ResponseWriter, *http.Request) { <-held })
	cfg.Also, cfg.Timeout = []netip.AddrPort{other.Addr}, 50*time.Millisecond
	d := dial(t, cfg)
	res, err := d.Open(t.Context(), make([]time.Duration, 2))
	if err != nil || res.Failed[load.ErrNoAnswer] != 2 || res.Answered != 0 {
		t.Errorf("failed: %s, error %v; want 2 without answer", res.Faults(), err)
	}
	close(held)
	if res, err := d.Open(t.Context(), make([]time.Duration, 6)); err != nil || res.Answered != 6 {
		t.Errorf("answered %d (%s), error %v; want 6", res.Answered, res.Faults(), err)
	}
}

func TestMark(t *testing.T) {
	var n atomic.Int64
	cfg := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.Header().Set("X-Mark", "yes")
		}
		_, _ = io.WriteString(w, "X-Mark")
	})
	for _, tt := range []struct {
		mark string
		want int
	}{
		{mark: "X-Mark", want: 5},
		{mark: "X-Other"},
		{mark: ""},
	} {
		t.Run("mark_"+tt.mark, func(t *testing.T) {
			cfg.Mark = []byte(tt.mark)
			res, err := dial(t, cfg).Open(t.Context(), every(time.Millisecond, 10))
			if err != nil || res.Answered != 10 || res.Marked != tt.want {
				t.Errorf("answered %d, marked %d, error %v; want 10, %d", res.Answered, res.Marked, err, tt.want)
			}
		})
	}
}

func TestConfigAlso(t *testing.T) {
	cfg := serve(t, func(http.ResponseWriter, *http.Request) {})
	cfg.Also = []netip.AddrPort{{}}
	if _, err := load.Dial(cfg); err == nil || !strings.Contains(err.Error(), "address") {
		t.Errorf("error %v, want one about the address", err)
	}
}
