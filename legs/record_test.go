package legs

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// noted is a Recorder that remembers.
type noted struct {
	mu      sync.Mutex
	asks    []string
	ends    int
	workers int
}

func (n *noted) Selected(ask *wire.Select, model string, pick *wire.Pick, err error, _ time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answer := ""
	if err != nil {
		answer = err.Error()
	} else {
		answer = pick.Worker.URL
	}
	n.asks = append(n.asks, ask.Text+" for "+model+": "+answer)
}

func (n *noted) Leases(b *worker.Batch, _ time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range b.Entries {
		if e.Kind == worker.EntryEnd {
			n.ends++
		}
	}
}

func (n *noted) Fleet(all []*worker.Worker, _ time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.workers = len(all)
}

func (n *noted) has(f func(n *noted) bool) func() bool {
	return func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return f(n)
	}
}

// TestRecorderIsTold: of every answer, of lease streams, and of the fleet.
func TestRecorderIsTold(t *testing.T) {
	rec := &noted{}
	b := startRecorded(t, rec, nil)
	ask := func(plan uint64, model, text string) {
		_, _ = b.Select(&wire.Select{Lease: worker.LeaseID{Incarnation: 1, Plan: plan}, Model: model, Text: text}) // the recorder is asked
	}
	s := spec(1, "m")
	s.Models[0].Aliases = []string{"alias"}
	b.put(t, s)
	b.ready(t, 1)
	ask(1, "alias", "hello")
	ask(2, "n", "nobody")
	w := &worker.Spec{ID: s.ID}
	b.leases(t, worker.Entry{Kind: worker.EntryStart, Lease: worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: 1}, Worker: w.ID}})
	b.leases(t, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: 1}}})
	bustest.Await(t, "an end and a worker", rec.has(func(n *noted) bool { return n.ends == 1 && n.workers == 1 }))
	if diff := cmp.Diff([]string{"hello for m: http://w1:8000", "nobody for n: " + worker.ErrNoWorkers.Error()}, rec.asks); diff != "" {
		t.Errorf("asks (-want +got):\n%s", diff)
	}
}

// TestRecordingChangesNoChoice: prompts are sent for the recorder, but policies see of
// them what they would see without it.
func TestRecordingChangesNoChoice(t *testing.T) {
	full := policy.Request{Text: "text", Chars: 4, TokenIDs: []uint32{1}, Tokens: 1, Namespace: 5, Target: "1", Keys: worker.Keys{Header: worker.HashKey("k")}}
	for _, tt := range []struct {
		policy    string
		recorded  bool
		announced wire.Reads
		want      func(r *policy.Request)
	}{
		{policy.RoundRobin, false, 0, func(*policy.Request) {}},
		{policy.RoundRobin, true, wire.ReadsSize | wire.ReadsTokens | wire.ReadsText | wire.NeedsText, func(r *policy.Request) {
			r.Text, r.Chars, r.TokenIDs, r.Namespace = "", 0, nil, 0
		}},
		{policy.Bucket, true, wire.ReadsSize | wire.ReadsTokens | wire.ReadsText | wire.NeedsText, func(r *policy.Request) { r.Text, r.TokenIDs, r.Namespace = "", nil, 0 }},
		{policy.PrefixHash, true, wire.ReadsKey | wire.ReadsSize | wire.ReadsTokens | wire.ReadsText | wire.NeedsText, func(*policy.Request) {}},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			var rec Recorder
			if tt.recorded {
				rec = &noted{}
			}
			b := startRecorded(t, rec, func(c *Config) {
				c.Policy = policy.DefaultConfig()
				c.Policy.Policy = tt.policy
			})
			if got := b.Reads(); got != tt.announced {
				t.Errorf("announced %v, want %v", got, tt.announced)
			}
			want, got := full, full
			tt.want(&want)
			b.hide(&got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what policies see (-want +got):\n%s", diff)
			}
		})
	}
}
