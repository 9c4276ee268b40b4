package ingress

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"smg/engine"
	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/worker"
)

// TestDecodeIsFirst has decode answer before prefill does, and before prefill has
// even been asked, as happens with engines that do not meet.
func TestDecodeIsFirst(t *testing.T) {
	const chatBody = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	const answer = `{"choices":[{"message":{"content":"hi"}}]}`
	instant := func(t *testing.T, status int, answers <-chan struct{}) *simtest.Engine {
		t.Helper()
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Errorf("reading a request: %v", err)
			}
			select {
			case <-answers:
			case <-r.Context().Done():
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer) // the client of a test that has failed may be gone
		}))
		t.Cleanup(srv.Close)
		return &simtest.Engine{URL: srv.URL, PeerHost: "127.0.0.1", PeerPort: 8998}
	}
	start := func(t *testing.T, status int, prefill <-chan struct{}) *disaggregated {
		t.Helper()
		always := make(chan struct{})
		close(always)
		return inFront(t, &simtest.PD{Prefill: []*simtest.Engine{instant(t, status, prefill)}, Decode: []*simtest.Engine{instant(t, http.StatusOK, always)}}, simhttp.SGLang, PD)
	}
	ask := func(t *testing.T, d *disaggregated, clients, each int) {
		t.Helper()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for range each {
					if status, _, got := d.asks(t, "/v1/chat/completions", chatBody); status != http.StatusOK || got != answer {
						t.Errorf("status %d: %s", status, got)
					}
				}
			})
		}
		wg.Wait()
	}
	for name, status := range map[string]int{"prefill answers late": http.StatusOK, "prefill fails late": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			late := make(chan struct{})
			d := start(t, status, late)
			ask(t, d, 4, 1)
			close(late)
			d.idle()
			// Behind the end of the last lease, which idle has seen.
			within(t, patience, "no room in flight", func() bool { return d.Server.rooms.Len() == 0 })
		})
	}
	t.Run("a fault of the gateway costs one request", func(t *testing.T) {
		f := new(faulty)
		d := startPD(t, simhttp.SGLang, withDeps(func(d *Deps) { f.Dispatcher, d.Dispatcher = d.Dispatcher, f }))
		f.at = map[string]bool{d.pd.Prefill[0].URL: true, d.pd.Prefill[1].URL: true}
		if status, header, got := d.asks(t, "/v1/chat/completions", chatBody); status != http.StatusInternalServerError || header.Get("X-Smg-Error-Code") != "internal_error" {
			t.Errorf("status %d: %s", status, got)
		}
		d.quiet(t)
		if !strings.Contains(d.log.String(), "a fault of the gateway") {
			t.Errorf("log: %s", d.log)
		}
		d.log.b.Reset()
	})
	t.Run("both at once", func(t *testing.T) {
		always := make(chan struct{})
		close(always)
		d := start(t, http.StatusOK, always)
		ask(t, d, 16, 50)
		d.idle()
	})
}

// faulty is a Dispatcher with a fault at some engines.
type faulty struct {
	Dispatcher
	at map[string]bool
}

func (f *faulty) Reach(url string, own *worker.PoolRules) (*engine.Target, error) {
	if f.at[url] {
		panic("fault")
	}
	return f.Dispatcher.Reach(url, own)
}
