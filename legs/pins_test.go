package legs

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// askKeyed selects for a conversation.
func (b *bench) askKeyed(t *testing.T, plan uint64, key string) wire.Pick {
	t.Helper()
	k := worker.HashKey(key)
	pick, err := b.Select(&wire.Select{
		Lease: worker.LeaseID{Incarnation: 1, Plan: plan}, Model: "m", Keys: worker.Keys{Header: k, Conversation: k, Pinned: k},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pick
}

func TestStickySessions(t *testing.T) {
	b := start(t, func(c *Config) { c.Policy.Sticky = policy.StickyConfig{On: true, Assignment: policy.AssignDelegate} })
	b.put(t, spec(1, "m"), spec(2, "m"))
	b.ready(t, 2)
	first := b.askKeyed(t, 1, "a")
	if first.Policy != policy.CacheAware || first.Branch != "vacant" {
		t.Errorf("picked by %s, branch %s, want cache_aware, vacant", first.Policy, first.Branch)
	}
	if again := b.askKeyed(t, 2, "a"); again.Worker.ID != first.Worker.ID || again.Branch != "occupied_hit" {
		t.Errorf("the second call went to %s by %s, want %s by occupied_hit", again.Worker.URL, again.Branch, first.Worker.URL)
	}
	other := b.askKeyed(t, 3, "b")
	want := map[string]int{first.Worker.URL: 1, other.Worker.URL: 1}
	families, err := b.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "smg_worker_routing_keys_active" {
			continue
		}
		for _, m := range f.GetMetric() {
			url := m.GetLabel()[0].GetValue()
			if got := int(m.GetGauge().GetValue()); got != want[url] {
				t.Errorf("%d keys are active at %s, want %d", got, url, want[url])
			}
			delete(want, url)
		}
	}
	if len(want) > 0 {
		t.Errorf("no count of active keys at %v", want)
	}
	if reads := b.Reads(); reads != wire.ReadsConversationKey|wire.ReadsText|wire.ReadsTokens|wire.NeedsText {
		t.Errorf("reads %v, want the conversation key beside what the policy reads", reads)
	}
}

// TestACallThatNeverGotThereLeavesNoPin: its end says so.
func TestACallThatNeverGotThereLeavesNoPin(t *testing.T) {
	b := start(t, func(c *Config) { c.Policy.Policy = policy.Manual })
	b.put(t, spec(1, "m"))
	b.ready(t, 1)
	b.askKeyed(t, 1, "kept")
	b.askKeyed(t, 2, "lost")
	b.leases(t,
		worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: 1}}, Outcome: worker.Success},
		worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: 2}}, Unreached: true},
	)
	bustest.Await(t, "the pin to go", func() bool {
		families, err := b.reg.Gather()
		if err != nil {
			return false
		}
		for _, f := range families {
			if f.GetName() == "smg_manual_policy_cache_entries" {
				return f.GetMetric()[0].GetGauge().GetValue() == 1
			}
		}
		return false
	})
	if got := b.askKeyed(t, 3, "kept").Branch; got != "occupied_hit" {
		t.Errorf("the other key: %s, want occupied_hit", got)
	}
	if n, err := testutil.GatherAndCount(b.reg, "smg_manual_policy_branch_total"); err != nil || n != 6 {
		t.Errorf("%d branches are exported (%v), want 6", n, err)
	}
}
