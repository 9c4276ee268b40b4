package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSend(t *testing.T) {
	e := newEngine(t, testConfig())
	a := submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 1, Handover: Send})
	b := submit(t, e, 0, Request{PromptTokens: 8, OutputTokens: 1, Handover: Send})
	want := []Event{
		{ID: a, Kind: Admitted},
		{ID: b, Kind: Admitted},
		{ID: a, Kind: Token, At: 28 * ms, Tokens: 1},
		{ID: a, Kind: Ready, At: 28 * ms, Tokens: 1},
		{ID: b, Kind: Token, At: 28 * ms, Tokens: 1},
		{ID: b, Kind: Ready, At: 28 * ms, Tokens: 1},
	}
	if diff := cmp.Diff(want, drain(e)); diff != "" {
		t.Fatal(diff)
	}
	// Nothing is due before somebody fetches, however long that takes.
	l := e.Ledger(time.Hour)
	if l.Held != 7 || l.Holdings[0].State != Sending || e.Loads(time.Hour).Sending != 2 {
		t.Errorf("ledger %+v", l)
	}
	if !e.Transfer(time.Hour, b) || e.Transfer(time.Hour, b) || !e.Transfer(time.Hour, a) {
		t.Error("a transfer starts once")
	}
	want = []Event{
		{ID: b, Kind: Done, At: time.Hour + 7*ms, Tokens: 1},
		{ID: a, Kind: Done, At: time.Hour + 7*ms + 10*ms, Tokens: 1}, // after b
	}
	if diff := cmp.Diff(want, drain(e)); diff != "" {
		t.Fatal(diff)
	}
	atRest(t, e)
	loads := e.Loads(e.Now())
	if loads.Totals.Sent != 2 || loads.Totals.SentBytes != 28_000 || loads.TransferTime != 17*ms {
		t.Errorf("loads %+v", loads)
	}
	if e.Transfer(e.Now(), a) || e.Abort(e.Now(), a) {
		t.Error("a sequence that is gone can be sent")
	}
}

func TestAbortWhileSending(t *testing.T) {
	e := newEngine(t, testConfig())
	a := submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 1, Handover: Send})
	b := submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 1, Handover: Send})
	drain(e)
	now := e.Now()
	e.Transfer(now, a)
	if !e.Abort(now+ms, a) || !e.Abort(now+ms, b) {
		t.Error("held sequences cannot be aborted")
	}
	atRest(t, e)
	events := drain(e)
	if len(events) != 2 || !events[0].Aborted || !events[1].Aborted {
		t.Errorf("events %+v", events)
	}
}

func TestReceive(t *testing.T) {
	tests := []struct {
		name     string
		delivery Delivery
		want     []Event // after the delivery at 50 ms
	}{
		{
			"with the first token",
			Delivery{Tokens: 20, First: true, Cached: 8},
			[]Event{
				{Kind: Token, At: 50 * ms, Tokens: 1, Cached: 8},
				{Kind: Token, At: 60 * ms, Tokens: 2, Cached: 8},
				{Kind: Done, At: 60 * ms, Tokens: 2, Cached: 8},
			},
		},
		{
			"the last prompt token is computed again",
			Delivery{Tokens: 20, Cached: 20},
			[]Event{
				{Kind: Token, At: 51 * ms, Tokens: 1, Cached: 20},
				{Kind: Token, At: 61 * ms, Tokens: 2, Cached: 20},
				{Kind: Done, At: 61 * ms, Tokens: 2, Cached: 20},
			},
		},
		{
			"nothing comes",
			Delivery{},
			[]Event{
				{Kind: Token, At: 70 * ms, Tokens: 1},
				{Kind: Token, At: 80 * ms, Tokens: 2},
				{Kind: Done, At: 80 * ms, Tokens: 2},
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newEngine(t, testConfig())
			id := submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 2, Handover: Receive})
			if diff := cmp.Diff([]Event{{ID: id, Kind: Admitted}}, drain(e)); diff != "" {
				t.Fatal(diff)
			}
			if l := e.Ledger(50 * ms); l.Held != 5 || l.Holdings[0].State != Receiving {
				t.Errorf("blocks for the prompt are not set aside: %+v", l)
			}
			if !e.Deliver(50*ms, id, tc.delivery) || e.Deliver(50*ms, id, tc.delivery) {
				t.Error("KV is delivered once")
			}
			for i := range tc.want {
				tc.want[i].ID = id
			}
			if diff := cmp.Diff(tc.want, drain(e)); diff != "" {
				t.Error(diff)
			}
			atRest(t, e)
		})
	}
}

// TestReceiveTakesASlot admits no more sequences than may run, also while
// their KV is still to come.
func TestReceiveTakesASlot(t *testing.T) {
	cfg := testConfig()
	cfg.MaxRunning = 2
	e := newEngine(t, cfg)
	var ids []ID
	for range 4 {
		ids = append(ids, submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 1, Handover: Receive}))
	}
	drain(e)
	if l := e.Loads(ms); l.Receiving != 2 || l.Waiting != 2 || l.WaitingUncachedTokens != 0 {
		t.Errorf("loads %+v", l)
	}
	e.Abort(ms, ids[0])
	e.Deliver(ms, ids[1], Delivery{Tokens: 20, First: true})
	drain(e)
	if l := e.Loads(2 * ms); l.Receiving != 2 || l.Waiting != 0 {
		t.Errorf("loads %+v", l)
	}
	e.Abort(2*ms, ids[2])
	e.Abort(2*ms, ids[3])
	atRest(t, e)
}

// TestHeldBlocksDelayOthers wants a prompt to wait, without busy looping, for
// the blocks of one that is not fetched.
func TestHeldBlocksDelayOthers(t *testing.T) {
	cfg := testConfig()
	cfg.KVBlocks = 6
	e := newEngine(t, cfg)
	a := submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 1, Handover: Send})
	b := submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 1})
	drain(e)
	if _, ok := e.Next(); ok || len(e.waiting) != 1 {
		t.Fatalf("something is due although all blocks are held; %d wait", len(e.waiting))
	}
	e.Transfer(100*ms, a)
	want := []Event{
		{ID: a, Kind: Done, At: 110 * ms, Tokens: 1},
		{ID: b, Kind: Admitted, At: 110 * ms},
		{ID: b, Kind: Token, At: 130 * ms, Tokens: 1},
		{ID: b, Kind: Done, At: 130 * ms, Tokens: 1},
	}
	if diff := cmp.Diff(want, drain(e)); diff != "" {
		t.Error(diff)
	}
	atRest(t, e)
}
