package engine

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"smg/worker"
)

func reach(tb testing.TB, c *Client, url string, own *worker.PoolRules) *Target {
	tb.Helper()
	t, err := c.Reach(url, own)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// A worker's connections are kept by its own rules, and what it does not say by the
// client's.
func TestRulesOfPools(t *testing.T) {
	tests := []struct {
		name string
		own  *worker.PoolRules
		pass time.Duration
		want uint64 // dials for two requests
	}{
		{"none", nil, 3 * time.Second, 1},
		{"none, too late", nil, 3*time.Second + 1, 2},
		{"kept longer", &worker.PoolRules{IdleTimeout: new(time.Minute)}, time.Minute, 1},
		{"kept longer, too late", &worker.PoolRules{IdleTimeout: new(time.Minute)}, time.Minute + 1, 2},
		{"kept for ever", &worker.PoolRules{IdleTimeout: new(time.Duration(0))}, 1000 * time.Hour, 1},
		{"none kept", &worker.PoolRules{MaxIdle: new(0)}, 0, 2},
		{"another rule", &worker.PoolRules{Timeout: time.Hour, ConnectTimeout: time.Hour}, 3*time.Second + 1, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newFakeEngine(t, answer("ok"), answer("ok"))
			clock := &clock{now: time.Unix(1000, 0)}
			cfg := DefaultConfig()
			cfg.Now = clock.Now
			client := newClient(t, cfg)
			target := reach(t, client, e.url, tt.own)
			exchange(t, client, target)
			clock.pass(tt.pass)
			exchange(t, client, target)
			if got := client.Stats().Dials; got != tt.want {
				t.Errorf("%d connections, want %d", got, tt.want)
			}
		})
	}
}

// Workers behind one address share its connections if they keep them alike, and no
// pool outlives its last target.
func TestRulesSharePools(t *testing.T) {
	client := newClient(t, DefaultConfig())
	const url = "http://127.0.0.1:1"
	usual, same, timed := reach(t, client, url, nil), reach(t, client, url, &worker.PoolRules{MaxIdle: new(500)}), reach(t, client, url, &worker.PoolRules{Timeout: time.Second})
	few, other := reach(t, client, url, &worker.PoolRules{MaxIdle: new(1)}), reach(t, client, url, &worker.PoolRules{ConnectTimeout: time.Second})
	if usual.pool != same.pool || usual.pool != timed.pool || usual.pool == few.pool || usual.pool == other.pool || few.pool == other.pool {
		t.Error("pools are shared by those who do not keep them alike, or not by those who do")
	}
	if !usual.Follows(nil) || usual.Follows(&worker.PoolRules{MaxIdle: new(1)}) || !few.Follows(&worker.PoolRules{MaxIdle: new(1)}) || timed.Follows(nil) {
		t.Error("a target does not know what rules it follows")
	}
	for _, target := range []*Target{usual, same, timed, few, other} {
		client.Forget(target)
	}
	if n := len(client.pools); n != 0 {
		t.Errorf("%d pools are left", n)
	}
}

// A worker's own limit ends a request that has not ended, whatever of the answer has
// come; the connection is not used again, and nothing is sent twice.
func TestRuleOfWholeRequests(t *testing.T) {
	limited := &worker.PoolRules{Timeout: 50 * time.Millisecond}
	for name, begun := range map[string]string{
		"before the answer":  "",
		"in its head":        "HTTP/1.1 200 OK\r\n",
		"in the body":        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
		"in a body of chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine(t, answer("ok"), begun, answer("ok"))
			client := newClient(t, DefaultConfig())
			target := reach(t, client, e.url, limited)
			exchange(t, client, target) // so that the next one has a used connection
			resp, err := post(t, client, target)
			if err == nil {
				_, err = io.ReadAll(resp)
				resp.Close()
			}
			if !errors.Is(err, ErrBroken) || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "within 50ms") {
				t.Errorf("got %v", err)
			}
			if got := exchange(t, client, target); got != "ok" {
				t.Errorf("the next request: %q", got)
			}
			if requests, conns, _ := e.seen(); len(requests) != 3 || conns != 2 {
				t.Errorf("%d requests on %d connections, want 3 on 2", len(requests), conns)
			}
		})
	}
	t.Run("connecting", func(t *testing.T) {
		client := newClient(t, DefaultConfig())
		_, err := post(t, client, reach(t, client, deaf(t), &worker.PoolRules{ConnectTimeout: 50 * time.Millisecond}))
		if !errors.Is(err, ErrConnect) || !strings.Contains(err.Error(), "within 50ms") {
			t.Errorf("got %v", err)
		}
	})
}
