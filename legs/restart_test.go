package legs

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"smg/bus"
	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// identifier is a prober whose workers say which process they are.
type identifier struct {
	*prober
	processes map[string]worker.Process // guarded by prober.mu
}

func (i identifier) Identify(_ context.Context, s *worker.Spec) (worker.Process, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.processes[s.URL], nil
}

func (i identifier) become(s *worker.Spec, p worker.Process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.processes[s.URL] = p
}

// TestARestartIsNoticed with the same registration: policies forget, the epoch of picks
// rises, and they name the new process's bootstrap port.
func TestARestartIsNoticed(t *testing.T) {
	var who identifier
	b := start(t, func(c *Config) { c.Leg = worker.Prefill }, func(d *Deps) {
		who = identifier{d.Prober.(*prober), map[string]worker.Process{}}
		d.Prober = who
	})
	s := spec(1, "m")
	s.Leg, s.Runtime, s.BootstrapHost, s.BootstrapPort, s.BootstrapSource = worker.Prefill, worker.SGLang, "w1", 8998, worker.EngineSource
	who.become(s, worker.Process{ID: 1, BootstrapPort: 8998})
	b.put(t, s)
	b.ready(t, 1)
	bustest.Await(t, "the process to be known", func() bool { return b.registry.Lookup(s.ID).Record.Process.ID == 1 })
	plan := uint64(0)
	ask := func() wire.Pick {
		t.Helper()
		plan++
		pick, err := b.Select(&wire.Select{Lease: worker.LeaseID{Incarnation: 1, Plan: plan, Leg: worker.Prefill}, Model: "m", Text: "hello world", Chars: 11})
		if err != nil {
			t.Fatal(err)
		}
		return pick
	}
	ask()
	before := ask()
	if before.Branch != "tree_match" || before.Epoch == 0 || before.Worker.BootstrapPort != 8998 {
		t.Fatalf("picked %+v of %+v", before, before.Worker)
	}
	who.become(s, worker.Process{ID: 2, BootstrapPort: 9001})
	bustest.Await(t, "the restart to be noticed", func() bool { return b.registry.Lookup(s.ID).Record.Process.ID == 2 })
	b.ready(t, 1)
	after := ask()
	if after.Epoch <= before.Epoch || after.Worker.BootstrapPort != 9001 || after.Branch == "tree_match" {
		t.Errorf("picked %+v of %+v, want a newer epoch, the new port, and no prefix", after, after.Worker)
	}
}

// TestARestartIsHeard by a replica that does not keep the worker.
func TestARestartIsHeard(t *testing.T) {
	b := start(t, nil)
	s := spec(1, "m")
	b.put(t, s)
	b.ready(t, 1)
	plan := uint64(0)
	branch := func() string {
		plan++
		pick, err := b.Select(&wire.Select{Lease: worker.LeaseID{Incarnation: 1, Plan: plan}, Model: "m", Text: "hello world", Chars: 11})
		if err != nil {
			return err.Error()
		}
		return pick.Branch
	}
	branch()
	if got := branch(); got != "tree_match" {
		t.Fatalf("the same prompt again: %s", got)
	}
	held := b.registry.Lookup(s.ID).Record
	tell := func(epoch, seq uint64) {
		t.Helper()
		rec := worker.Record{Worker: s.ID, Epoch: epoch, Term: 1 << 30, Keeper: 99, Seq: seq, Status: worker.Ready}
		if err := bus.Publish(b.bus, b.cluster.State(worker.Regular), &wire.Records{*wire.StateOf(rec, b.now())}); err != nil {
			t.Fatal(err)
		}
		bustest.Await(t, "the record", func() bool { return b.registry.Lookup(s.ID).Record.Term >= 1<<30 })
	}
	tell(held.Epoch, 1)
	if got := branch(); got != "tree_match" {
		t.Errorf("after news of the same process: %s", got)
	}
	tell(held.Epoch+1, 1<<20)
	bustest.Await(t, "the epoch", func() bool { return b.registry.Lookup(s.ID).Record.Epoch > held.Epoch })
	if got := branch(); got == "tree_match" {
		t.Errorf("after news of another process: %s", got)
	}
}

// TestARefusedCallHasItsWorkerProbed now, and not when the interval is over: what comes
// back then is another process.
func TestARefusedCallHasItsWorkerProbed(t *testing.T) {
	b := start(t, func(c *Config) {
		c.Keeper.Health = worker.DefaultHealthConfig() // one probe a minute
		c.Policy.Policy = policy.RoundRobin
	})
	s := spec(1, "m")
	b.put(t, s)
	b.ready(t, 1)
	epoch := b.registry.Lookup(s.ID).Record.Epoch
	probes := b.prober.count(s.URL)
	b.prober.set(s.URL, fmt.Errorf("GET %s: %w", s.URL, syscall.ECONNREFUSED))
	pick, err := b.ask(1, "m")
	if err != nil {
		t.Fatal(err)
	}
	lease := worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: 1}, Worker: pick.Worker.ID}
	b.leases(t, worker.Entry{Kind: worker.EntryStart, Lease: lease}, worker.Entry{Kind: worker.EntryEnd, Lease: lease, Outcome: worker.Failure, Unreached: true})
	bustest.Await(t, "a probe", func() bool { return b.prober.count(s.URL) > probes })
	b.prober.set(s.URL, nil)
	bustest.Await(t, "the next process", func() bool { return b.registry.Lookup(s.ID).Record.Epoch > epoch })
	b.ready(t, 1)
	if n := b.prober.count(s.URL); n > probes+20 {
		t.Errorf("%d probes", n-probes)
	}
}
