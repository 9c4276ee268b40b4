package ingress

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/worker"
)

const pairedChat = `{"model":"m","messages":[{"role":"user","content":"Hello"}],"max_tokens":5}`

// kinded has the fleet's workers be of classes: those of prefill, then those of decode,
// two each, and tells the ingress of the pairing that comes of it.
func (d *disaggregated) kinded(pairing *worker.Pairing, classes [4]worker.Class) {
	for i, c := range classes {
		w := d.selector.workers[i]
		w.Runtime, w.KVConnector, w.Labels = c.Runtime, c.Connector, map[string]string{worker.GroupLabel: c.Group}
	}
	d.fleet.pairing = pairing
}

// asked are the legs that were asked for, in the order of asking where it is fixed.
func (d *disaggregated) asked() (legs map[worker.Leg]int, fits []string) {
	d.selector.mu.Lock()
	defer d.selector.mu.Unlock()
	legs = map[worker.Leg]int{}
	for _, a := range d.selector.asks {
		legs[a.Lease.Leg]++
		fit := "anybody"
		if a.Fit != nil {
			fit = fmt.Sprintf("%s %v", a.Fit.Class, a.Fit.Groups)
		}
		fits = append(fits, a.Lease.Leg.String()+": "+fit)
	}
	return legs, fits
}

func TestPairs(t *testing.T) {
	sg, vl := worker.Class{Runtime: worker.SGLang}, worker.Class{Runtime: worker.VLLM, Connector: worker.NixlConnector}
	red, blue := worker.Class{Runtime: worker.SGLang, Group: "red"}, worker.Class{Runtime: worker.SGLang, Group: "blue"}
	for _, tt := range []struct {
		name    string
		pairing *worker.Pairing
		classes [4]worker.Class
		legs    map[worker.Leg]int // how often each is asked at most
		status  int
		says    string
	}{
		{
			name: "one class is asked once, for anybody", classes: [4]worker.Class{sg, sg, sg, sg},
			legs: map[worker.Leg]int{worker.Prefill: 1, worker.Decode: 1}, status: http.StatusOK,
		},
		{
			name: "one class that both have is pinned at once", pairing: &worker.Pairing{Classes: []worker.Class{sg}}, classes: [4]worker.Class{sg, vl, sg, sg},
			legs: map[worker.Leg]int{worker.Prefill: 1, worker.Decode: 1}, status: http.StatusOK,
		},
		{
			name: "groups are asked in turn", pairing: &worker.Pairing{Classes: []worker.Class{red, blue}, Grouped: true},
			classes: [4]worker.Class{red, blue, blue, red},
			legs:    map[worker.Leg]int{worker.Prefill: 1, worker.Decode: 1}, status: http.StatusOK,
		},
		{
			name: "what does not fit is asked again", pairing: &worker.Pairing{Classes: []worker.Class{sg, {Runtime: worker.SGLang, Connector: "other"}}},
			classes: [4]worker.Class{sg, sg, {Runtime: worker.Generic}, sg}, // decode is picked by turns
			legs:    map[worker.Leg]int{worker.Prefill: 1, worker.Decode: 2}, status: http.StatusOK,
		},
		{
			name: "nobody fits", pairing: &worker.Pairing{}, classes: [4]worker.Class{sg, sg, vl, vl},
			legs: map[worker.Leg]int{worker.Prefill: 1, worker.Decode: 1}, status: http.StatusServiceUnavailable, says: "no decode worker for m that prefill worker",
		},
		{
			name: "the class that was here is gone", pairing: &worker.Pairing{Classes: []worker.Class{sg}}, classes: [4]worker.Class{sg, sg, vl, vl},
			legs: map[worker.Leg]int{worker.Prefill: 1, worker.Decode: 1}, status: http.StatusServiceUnavailable, says: "no decode worker for m that the other leg",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := startPD(t, simhttp.SGLang)
			d.kinded(tt.pairing, tt.classes)
			for range 4 { // the selector goes round
				d.selector.mu.Lock()
				d.selector.asks = nil
				d.selector.mu.Unlock()
				status, header, answer := d.asks(t, "/v1/chat/completions", pairedChat)
				if status != tt.status || !strings.Contains(answer, tt.says) {
					t.Fatalf("status %d, want %d: %s", status, tt.status, answer)
				}
				if status != http.StatusOK && header.Get("X-Smg-Error-Code") != "no_available_workers" {
					t.Errorf("code %q", header.Get("X-Smg-Error-Code"))
				}
				legs, fits := d.asked()
				for leg, most := range tt.legs {
					if n := legs[leg]; n < 1 || n > most {
						t.Errorf("%s was asked %d times, want %d at most: %q", leg, n, most, fits)
					}
				}
			}
			d.quiet(t)
			d.selector.verify(t)
		})
	}
}

// TestGroupsAreAskedInTurn: decode is asked for prefill's own group, and not before
// prefill is picked.
func TestGroupsAreAskedInTurn(t *testing.T) {
	red, blue := worker.Class{Runtime: worker.SGLang, Group: "red"}, worker.Class{Runtime: worker.SGLang, Group: "blue"}
	d := startPD(t, simhttp.SGLang)
	d.kinded(&worker.Pairing{Classes: []worker.Class{red, blue}, Grouped: true}, [4]worker.Class{red, red, blue, red})
	if status, _, answer := d.asks(t, "/v1/chat/completions", pairedChat); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	_, fits := d.asked()
	if got, want := strings.Join(fits, ", "), "prefill:  [red blue], decode: sglang [red]"; got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

// TestRoutesOfOneEngine: a route that vLLM has not goes to others, and is refused where there
// are none.
func TestRoutesOfOneEngine(t *testing.T) {
	sg, vl := worker.Class{Runtime: worker.SGLang}, worker.Class{Runtime: worker.VLLM, Connector: worker.NixlConnector}
	red, blue := worker.Class{Runtime: worker.SGLang, Group: "red"}, worker.Class{Runtime: worker.VLLM, Connector: worker.NixlConnector, Group: "blue"}
	const generate, chat = `{"text":"Hello","sampling_params":{"max_new_tokens":2}}`, pairedChat
	for _, tt := range []struct {
		name, path, body string
		pairing          *worker.Pairing
		classes          [4]worker.Class
		status           int
		want             string // who decode is asked for
	}{
		{"two engines", "/generate", generate, &worker.Pairing{Classes: []worker.Class{vl, sg}}, [4]worker.Class{sg, sg, sg, sg}, 200, "decode: sglang []"},
		{"groups", "/generate", generate, &worker.Pairing{Classes: []worker.Class{blue, red}, Grouped: true}, [4]worker.Class{red, red, red, red}, 200, "decode: sglang [red]"},
		{"a route of both", chatPath, chat, &worker.Pairing{Classes: []worker.Class{vl, sg}}, [4]worker.Class{sg, sg, sg, sg}, 200, "decode: anybody"},
		{"vLLM alone", "/generate", generate, &worker.Pairing{Classes: []worker.Class{vl}}, [4]worker.Class{vl, vl, vl, vl}, 501, "decode: vllm with NixlConnector []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := startPD(t, simhttp.SGLang)
			d.kinded(tt.pairing, tt.classes)
			status, _, answer := d.asks(t, tt.path, tt.body)
			if status != tt.status {
				t.Errorf("status %d, want %d: %s", status, tt.status, answer)
			}
			if _, fits := d.asked(); !slices.Contains(fits, tt.want) {
				t.Errorf("asked for %q, want %q", fits, tt.want)
			}
			d.quiet(t)
		})
	}
}

func TestFieldPicks(t *testing.T) {
	t.Run("PD-15_a_pick_of_another_model_is_not_called", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang, withDeps(func(d *Deps) { d.Log = slog.New(slog.DiscardHandler) })) // which has an error
		for _, e := range d.pd.All() {
			if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range d.selector.workers {
			if w.Leg == worker.Decode {
				d.fleet.elsewhere.Store(w.ID, true)
			}
		}
		status, header, answer := d.asks(t, "/v1/chat/completions", pairedChat)
		if status != http.StatusInternalServerError || header.Get("X-Smg-Error-Code") != "internal_error" || !strings.Contains(answer, "for the decode leg of m") {
			t.Errorf("status %d: %s", status, answer)
		}
		if n := testutil.ToFloat64(d.Server.metrics.pd.mismatch); n != 1 {
			t.Errorf("%v mismatches counted, want 1", n)
		}
		for _, e := range d.pd.All() {
			if records, err := e.Records(t.Context(), "/v1/chat/completions"); err != nil || len(records) != 0 {
				t.Errorf("engine %s has got %d requests, %v", e.URL, len(records), err)
			}
		}
		d.quiet(t)
		d.selector.verify(t)
	})
}
