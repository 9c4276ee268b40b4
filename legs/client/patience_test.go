package client

import (
	order "cmp"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"smg/wire"
	"smg/worker"
)

// paused is a client of one selector replica, in a bubble. What the replica is asked
// at a time in a pause it answers when the pause is over.
func paused(t *testing.T, pauses ...[2]time.Duration) *Client {
	t.Helper()
	c, err := New(Config{
		Name: "i", Incarnation: 5, Legs: []worker.Leg{worker.Regular}, PlanTimeout: 200 * time.Millisecond,
	}, Deps{Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.post = func(p *peer, ask *wire.Select) error {
		at, r := time.Since(began), &wire.Reply{Lease: ask.Lease, Replica: p.id, Pick: wire.Pick{Worker: spec(1)}}
		wait := time.Duration(0)
		for _, p := range pauses {
			if p[0] <= at && at < p[1] {
				wait = p[1] - at
			}
		}
		time.AfterFunc(wait, func() { c.onReply(r) })
		return nil
	}
	c.Offer(spec(1))
	c.legs[worker.Regular].ranking.Apply(worker.ReplicaBeat{Replica: 9, Ready: true}, began)
	return c
}

// fate is what became of a select.
type fate struct {
	At, Took time.Duration
	Degraded bool
}

// TestPatience: a replica that is late, but answers within the plan time-out, is waited
// for by everybody; one that does not costs that time those who asked before anybody
// knew, and few others.
func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	n := func(n int, f fate) []fate {
		all := make([]fate, n)
		for i := range all {
			all[i] = f
		}
		return all
	}
	concat := func(all ...[]fate) (one []fate) {
		for _, part := range all {
			one = append(one, part...)
		}
		return one
	}
	tests := []struct {
		name   string
		pauses [][2]time.Duration
		want   []fate // in the order in which they are asked
	}{
		{"nobody is late", nil, n(50, fate{At: 0})},
		{
			"a pause in a burst",
			[][2]time.Duration{{0, 150 * ms}},
			concat(n(50, fate{Took: 150 * ms}), n(50, fate{At: 50 * ms, Took: 100 * ms}), n(1, fate{At: 151 * ms})),
		},
		{
			"pauses again and again",
			[][2]time.Duration{{0, 150 * ms}, {200 * ms, 390 * ms}, {400 * ms, 590 * ms}},
			concat(n(9, fate{Took: 150 * ms}), n(9, fate{At: 200 * ms, Took: 190 * ms}), n(9, fate{At: 400 * ms, Took: 190 * ms})),
		},
		{
			"silent from a burst on",
			[][2]time.Duration{{0, time.Hour}},
			concat(n(50, fate{Took: 200 * ms, Degraded: true}), n(50, fate{At: 201 * ms, Degraded: true})),
		},
		{
			// The first two find it out, and it is left alone for 1 s, then for 2 s.
			"silent, one after the other",
			[][2]time.Duration{{0, time.Hour}},
			[]fate{
				{0, 200 * ms, true},
				{250 * ms, 200 * ms, true},
				{500 * ms, 0, true},
				{1500 * ms, 25 * ms, true},
				{1600 * ms, 25 * ms, true},
				{1700 * ms, 0, true},
			},
		},
		{
			// At 200 ms one has waited in vain: of those who came at 190 ms one waits as well.
			"found out by one of them",
			[][2]time.Duration{{0, time.Hour}},
			concat(n(1, fate{Took: 200 * ms, Degraded: true}), n(1, fate{At: 190 * ms, Took: 200 * ms, Degraded: true}), n(5, fate{At: 190 * ms, Took: 25 * ms, Degraded: true})),
		},
		{
			"an answer, however late, and everybody waits again",
			[][2]time.Duration{{0, 210 * ms}, {250 * ms, 400 * ms}},
			concat(n(1, fate{Took: 200 * ms, Degraded: true}), n(20, fate{At: 250 * ms, Took: 150 * ms})),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := paused(t, tt.pauses...)
				began := time.Now()
				got := make([]fate, len(tt.want))
				var wg sync.WaitGroup
				for i, f := range tt.want {
					if wait := f.At - time.Since(began); wait > 0 {
						<-time.After(wait)
					}
					if i > 0 && f.At == tt.want[i-1].At {
						synctest.Wait() // the one before waits, or has its answer
					}
					wg.Go(func() {
						at := time.Since(began)
						id := c.Plan()
						pick, err := c.Select(t.Context(), &wire.Select{Lease: id, Model: "m"})
						if err != nil {
							t.Error(err)
						}
						got[i] = fate{at, time.Since(began) - at, pick.Degraded}
						c.End(id, worker.Neutral, true)
					})
				}
				wg.Wait()
				// Whose timer is first at an instant is chance.
				slices.SortFunc(got, func(a, b fate) int { return order.Or(order.Compare(a.At, b.At), order.Compare(b.Took, a.Took)) })
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("selects (-want +got):\n%s", diff)
				}
				<-time.After(2 * time.Hour) // the late answers
			})
		})
	}
}
