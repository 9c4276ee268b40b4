package client

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// Messages of FuzzReplies. The highest bit of a kind has them be those of decode.
const (
	aReply byte = iota
	theRecords
	aQuestion
	theLoads
	aBeat
	aSpec
	kinds

	ofDecode byte = 0x80
)

// hear is what a client does with a message that it can read.
func (c *Client) hear(kind byte, data []byte) {
	leg := worker.Regular
	if kind&ofDecode != 0 {
		leg = worker.Decode
	}
	switch kind &^ ofDecode % kinds {
	case aReply:
		if m, err := wire.DecodeReply(data); err == nil {
			c.onReply(m)
		}
	case theRecords:
		if m, err := wire.DecodeRecords(data); err == nil {
			c.onState(leg, m)
		}
	case aQuestion:
		if m, err := wire.DecodeSnapshot(data); err == nil {
			c.onSnapshot(leg, m)
		}
	case theLoads:
		if m, err := wire.DecodeLoads(data); err == nil {
			c.loads.hear(m)
		}
	case aBeat:
		if m, err := wire.DecodeBeat(data); err == nil {
			c.onBeat(c.legs[leg], m)
		}
	case aSpec:
		if m, err := wire.DecodeSpec(data); err == nil {
			c.registry.Put(m)
		}
	}
}

// FuzzReplies: whatever comes over the bus while selects are under way, in whatever
// order, nobody hangs; what the client tells others afterwards can be sent; and it still
// chooses, counts and knows its fleet.
func FuzzReplies(f *testing.F) {
	const asks = 1000 // the plan that waits
	lease := worker.LeaseID{Incarnation: 5, Plan: asks}
	now := time.UnixMilli(1_700_000_000_000)
	ready := said(1, 3)
	ready.Breaker, ready.Overloaded, ready.BreakerSince = worker.Closed, false, now
	ready.Report = &worker.Report{Queued: 1, PolledAt: now.Add(-time.Second), GoodFor: time.Minute}
	known := bustest.Pack(f, nil, aSpec, wire.AppendSpec, spec(1))
	known = bustest.Pack(f, known, theRecords, wire.AppendRecords, &wire.RecordsOf([]worker.Record{ready}, now)[0])
	beat := bustest.Pack(f, known, aBeat, wire.AppendBeat, &wire.Beat{
		Replica: 101, Leg: worker.Regular, Ready: true, Build: "b", Versions: []uint32{1},
		Policies: []wire.PolicyUse{{Name: "consistent_hashing", Reads: wire.ReadsKey}}, Models: []string{"m"},
	})
	reply := func(input []byte, r wire.Reply) []byte { return bustest.Pack(f, input, aReply, wire.AppendReply, &r) }
	pick := wire.Pick{Worker: spec(1), Policy: "p", Tokens: 7}
	f.Add(known)
	f.Add(reply(beat, wire.Reply{Lease: lease, Replica: 101, Pick: pick}))
	queued := wire.Reply{Lease: lease, Replica: 101, Queued: true}
	f.Add(reply(reply(reply(reply(beat, queued), queued), wire.Reply{Lease: lease, Replica: 101, Pick: pick}), wire.Reply{Lease: lease, Replica: 102, Pick: pick}))
	f.Add(reply(reply(nil, wire.Reply{Lease: lease, Replica: 102, Err: &wire.Error{Code: wire.CodeNotReady, Message: "no"}}), wire.Reply{Lease: worker.LeaseID{Incarnation: 5, Plan: 9}, Replica: 3, Pick: pick}))
	f.Add(reply(nil, wire.Reply{Lease: worker.LeaseID{Incarnation: 6, Plan: 1}, Replica: 101, Pick: pick})) // somebody else's
	f.Add(bustest.Pack(f, beat, aQuestion, wire.AppendSnapshot, &wire.Snapshot{Asker: 9, Stage: worker.RecallAll}))
	f.Add(bustest.Pack(f, nil, theLoads, wire.AppendLoads, &wire.Loads{Question: 1, Replica: 101, Last: true, Workers: []worker.Loads{loadOf(1), loadOf(1)}}))

	conn := bustest.Start(f)
	cluster := testCluster(f)
	bucket := bus.NewBucket(conn, cluster.Workers())
	f.Fuzz(func(t *testing.T, input []byte) {
		var log bytes.Buffer
		c, err := New(
			Config{Cluster: cluster, Name: "i", Incarnation: 5, Legs: []worker.Leg{worker.Regular, worker.Decode}, PlanTimeout: time.Second},
			Deps{
				Bus: conn, Workers: bucket, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
				Registerer: prometheus.NewRegistry(), Now: func() time.Time { return now },
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		c.post = func(*peer, *wire.Select) error { return bus.ErrDisconnected } // nobody is there
		l := c.legs[worker.Regular]
		peers := []*peer{l.peer(c, worker.Regular, 101), l.peer(c, worker.Regular, 102)}
		one := c.waiting.begin(lease, 2*len(peers))
		for _, p := range peers {
			c.waiting.add(one, p, now)
		}
		_, _ = c.loads.begin(map[worker.ReplicaID]bool{101: true, 102: true})

		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 256 {
				kind, data, rest, ok := bustest.Unpack(input)
				if !ok {
					break
				}
				c.hear(kind, data)
				input = rest
			}
			c.waiting.close(lease, one, nil)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatal("a handler hangs")
		}

		for _, p := range peers {
			if n := p.open.Load(); n != 0 {
				t.Errorf("replica %d owes %d answers", p.id, n)
			}
		}
		if n := len(c.waiting.asks); n != 0 {
			t.Errorf("%d selects wait", n)
		}
		c.loads.end()
		if r := c.takeReadiness(); r.healthy > r.total || r.total != len(c.Workers()) {
			t.Errorf("%+v of %d workers", r, len(c.Workers()))
		}
		if !slices.IsSortedFunc(c.Workers(), func(a, b *worker.Worker) int { return a.Spec.Compare(b.Spec) }) {
			t.Error("the workers are in no order")
		}
		c.registry.Lapse(now.Add(time.Hour))
		for _, wait := range []time.Duration{0, time.Minute} {
			ask := wire.Select{Lease: c.Plan(), Model: "m", Wait: wait}
			picked, err := c.Select(t.Context(), &ask)
			if err != nil {
				continue
			}
			if c.Lookup(picked.Worker.ID) == nil || c.Active(picked.Worker.ID) != 1 {
				t.Errorf("%s was picked, which has %d calls", picked.Worker.URL, c.Active(picked.Worker.ID))
			}
			c.End(ask.Lease, worker.Success, false)
		}
		for _, l := range c.legs {
			if l == nil {
				continue
			}
			if n := l.writer.Open(); n != 0 {
				t.Errorf("%d leases are open", n)
			}
			if b, ok := l.writer.Flush(); ok {
				if _, err := wire.AppendBatch(nil, &b); err != nil {
					t.Errorf("what became of leases cannot be told: %v", err)
				}
			}
		}
		if strings.Contains(log.String(), "could not") {
			t.Errorf("log:\n%s", &log)
		}
	})
}
