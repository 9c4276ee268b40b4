package legs

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// Messages of FuzzHandlers. The highest bit of a kind has records come not of the stream,
// but as an answer.
const (
	aBatch byte = iota
	theRecords
	aQuestion
	aLoadsQuestion
	aBeat
	aSelect
	kinds

	ofAnswer byte = 0x80
)

// hear is what a service does with a message that it can read. The answer to a select
// must be one that can be sent.
func (s *Service) hear(kind byte, data []byte) error {
	switch kind &^ ofAnswer % kinds {
	case aBatch:
		if m, err := wire.DecodeBatch(data); err == nil {
			s.onLeases(m)
		}
	case theRecords:
		if m, err := wire.DecodeRecords(data); err == nil {
			s.onState(m, kind&ofAnswer == 0)
		}
	case aQuestion:
		if m, err := wire.DecodeSnapshot(data); err == nil {
			s.onSnapshot(m)
		}
	case aLoadsQuestion:
		if m, err := wire.DecodeLoadsAsk(data); err == nil {
			s.onLoads(m)
		}
	case aBeat:
		if m, err := wire.DecodeBeat(data); err == nil {
			s.onBeat(m)
		}
	case aSelect:
		if m, err := wire.DecodeSelect(data); err == nil {
			_, err := wire.AppendReply(nil, s.answer(m))
			return err
		}
	}
	return nil
}

// FuzzHandlers: whatever comes over the bus, in whatever order and under whatever policy,
// a selector does not hang, what it says can be sent, and once those who said it are
// silent nothing of it is counted and nobody waits any more.
func FuzzHandlers(f *testing.F) {
	now := time.UnixMilli(1_700_000_000_000)
	w := spec(1, "m")
	record := worker.Record{
		Worker: w.ID, Epoch: 5, Term: 7, Keeper: 99, Seq: 1, Status: worker.Ready, BreakerSince: now.Add(-time.Minute),
		Report: &worker.Report{Queued: 17, Waiting: 3, PolledAt: now.Add(-time.Second), GoodFor: time.Minute},
	}
	ready := bustest.Pack(f, nil, theRecords, wire.AppendRecords, &wire.RecordsOf([]worker.Record{record}, now)[0])
	ask := func(input []byte, change func(*wire.Select)) []byte {
		a := wire.Select{Lease: worker.LeaseID{Incarnation: 5, Plan: 1}, Model: "m", Text: "hello", Chars: 5}
		change(&a)
		return bustest.Pack(f, input, aSelect, wire.AppendSelect, &a)
	}
	lease := worker.Lease{ID: worker.LeaseID{Incarnation: 5, Plan: 1}, Worker: w.ID, Tokens: 100}
	batch := worker.Batch{Ingress: "i", Incarnation: 5, Seq: 1, Entries: []worker.Entry{
		{Kind: worker.EntryStart, Lease: lease},
		{Kind: worker.EntryEnd, Lease: worker.Lease{ID: worker.LeaseID{Incarnation: 5, Plan: 2}}, Outcome: worker.Failure, Unreached: true},
	}}
	beat := batch
	beat.Seq, beat.Entries, beat.Beat = 2, nil, &worker.Beat{Open: 3, Quarter: lease.ID.Quarter(), Renewed: []worker.Lease{lease}}
	for i := range policy.Names() {
		p := uint8(i)
		picked := ask(ready, func(*wire.Select) {})
		f.Add(p, picked)
		f.Add(p, bustest.Pack(f, bustest.Pack(f, picked, aBatch, wire.AppendBatch, &batch), aBatch, wire.AppendBatch, &beat))
		waits := picked
		for plan := range uint64(4) { // of which two have room
			waits = ask(waits, func(a *wire.Select) { a.Lease.Plan, a.Wait, a.Priority = 10+plan, time.Minute, int(plan) })
		}
		f.Add(p, bustest.Pack(f, waits, aBatch, wire.AppendBatch, &batch))
		f.Add(p, ask(ready, func(a *wire.Select) {
			a.Text, a.Chars, a.TokenIDs, a.Tokens = "", 0, []uint32{1, 2, 3}, 3
			a.Target, a.Keys.Header = "1", worker.HashKey("k")
		}))
	}
	f.Add(uint8(0), bustest.Pack(f, ready, aQuestion, wire.AppendSnapshot, &wire.Snapshot{Asker: 9, Stage: worker.RecallAll}))
	f.Add(uint8(0), bustest.Pack(f, ready, aLoadsQuestion, wire.AppendLoadsAsk, &wire.LoadsAsk{Asker: 9, Question: 1}))
	f.Add(uint8(0), bustest.Pack(f, ready, aBeat, wire.AppendBeat, &wire.Beat{
		Replica: 8, Leg: worker.Regular, Ready: true, Build: "b", Versions: []uint32{1}, Policies: []wire.PolicyUse{{Name: "random"}},
	}))

	conn := bustest.Start(f)
	cluster := testCluster(f)
	f.Fuzz(func(t *testing.T, which uint8, input []byte) {
		var log bytes.Buffer
		cfg := Config{
			Cluster: cluster, Replica: 7, Build: "test", Policy: policy.DefaultConfig(), Keeper: worker.DefaultKeeperConfig(),
			Loads: DefaultLoadConfig(), Endpoint: "/health", Rooms: Rooms{Bound: true, Most: 2},
		}
		names := policy.Names()
		cfg.Policy.Policy = names[int(which)%len(names)]
		s, err := New(cfg, Deps{
			Bus: conn, Prober: &prober{}, Registerer: prometheus.NewRegistry(), Now: func() time.Time { return now },
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.ready.Store(true)
		s.add(spec(1, "m"), spec(2, "m"))
		s.onBeat(&wire.Beat{Replica: cfg.Replica, Ready: true})

		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 256 {
				kind, data, rest, ok := bustest.Unpack(input)
				if !ok {
					break
				}
				if err := s.hear(kind, data); err != nil {
					t.Errorf("an answer that cannot be sent: %v", err)
				}
				input = rest
			}
			later := now.Add(time.Hour)
			s.fold.Tick(later, false)
			s.ranking.Tick(later, false)
			s.book.Tick(later)
			s.tickQueue(later)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatal("a handler hangs")
		}
		if n := s.queue.size.Load(); n != 0 || s.queue.prompts != 0 || len(s.queue.lines) != 0 {
			t.Errorf("%d selects wait, with %d bytes", n, s.queue.prompts)
		}
		for _, w := range s.registry.Workers() {
			if n := w.Load.Active(); n != 0 {
				t.Errorf("%s has %d calls of nobody's", w.Spec.URL, n)
			}
		}
		if strings.Contains(log.String(), "could not") {
			t.Errorf("log:\n%s", &log)
		}
	})
}
