package simhttp_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// TestDuplicateIDs refuses an id that is under way, in the words of each API.
func TestDuplicateIDs(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
	p, d := pd.Prefill[0], pd.Decode[0]
	first := startIn(p, with(t, sea, bootstrap(p, 1)))
	await(t, p, "the first is there", func(l simctl.Ledger) bool { return l.Rooms == 1 })
	const taken = "Duplicate request ID detected: sea"
	chat := with(t, sea, bootstrap(p, 2))
	generate := with(t, `{"rid":"sea","text":"Hi"}`, bootstrap(p, 3))
	batch := with(t, `{"rid":["land","sea"],"text":["Hi","Ho"]}`, bootstrap(p, []int{4, 5}))
	tests := []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"chat", "/v1/chat/completions", chat, 400, `{"object":"error","message":"` + taken},
		{"chat, streamed", "/v1/chat/completions", with(t, chat, map[string]any{"stream": true}), 200, taken},
		{"generate", "/generate", generate, 400, `{"error":{"message":"` + taken},
		{"generate, streamed", "/generate", with(t, generate, map[string]any{"stream": true}), 200, taken},
		{"one of a batch", "/generate", batch, 400, taken},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			status, text := callerOf(t, p).post(tc.path, tc.body)
			if status != tc.status || !strings.Contains(text, tc.want) {
				t.Errorf("%d %s, want %d with %s", status, text, tc.status, tc.want)
			}
		})
	}
	t.Run("twice in one request", func(t *testing.T) {
		status, text := callerOf(t, simtest.Start(t, config(simhttp.SGLang))).post("/generate", `{"rid":["x","x"],"text":["a","b"]}`)
		if status != 400 || !strings.Contains(text, "Duplicate request ID detected: x") {
			t.Errorf("%d %s", status, text)
		}
	})
	first.cancel()
	first.wait(t)
	atRest(t, p)
	prefill, decode := both(t, p, d, "/v1/chat/completions", chat)
	if prefill.status != 200 || decode.status != 200 {
		t.Errorf("once the first has left: %+v %+v", prefill, decode)
	}
	atRest(t, p, d)
}

// TestDuplicateRooms counts them, on either side.
func TestDuplicateRooms(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
	p, d := pd.Prefill[0], pd.Decode[0]
	body := with(t, sea, bootstrap(p, 1))
	other := strings.Replace(body, `"sea"`, `"another"`, 1)
	counted := func(e *simtest.Engine) uint64 {
		tr, err := e.Transfers(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		return tr.DuplicateRooms
	}
	for _, e := range []*simtest.Engine{p, d} {
		first := startIn(e, body)
		await(t, p, "the first is there", func(l simctl.Ledger) bool { return l.Rooms == 1 })
		if status, text := callerOf(t, e).post("/v1/chat/completions", other); status != 500 {
			t.Errorf("%d %s", status, text)
		}
		first.cancel()
		first.wait(t)
		atRest(t, p, d)
	}
	// One that decode engines fetch from twice is one at prefill too.
	if counted(p) != 2 || counted(d) != 1 {
		t.Errorf("prefill counts %d, decode %d, want 2 and 1", counted(p), counted(d))
	}
}

// TestCrashOnDuplicateRoom has an engine die as the real one does.
func TestCrashOnDuplicateRoom(t *testing.T) {
	for _, mode := range []simhttp.Mode{simhttp.Prefill, simhttp.Decode} {
		t.Run(string(mode), func(t *testing.T) {
			p := simtest.StartPD(t, 1, 0, config(simhttp.SGLang)).Prefill[0]
			cfg := config(simhttp.SGLang)
			cfg.Disagg.Mode = mode
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			fleet, err := simhttp.NewFleet(cfg, []net.Listener{l}, nil, time.Now, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- fleet.Run(context.WithoutCancel(t.Context())) }()
			e := &simtest.Engine{URL: "http://" + l.Addr().String(), Server: fleet.Servers()[0]}
			if err := e.Server.SetFaults(simctl.Faults{CrashOnDuplicateRoom: true}); err != nil {
				t.Fatal(err)
			}
			where := p // where the first one waits
			body := with(t, sea, bootstrap(p, 1))
			first := startIn(e, body)
			if mode == simhttp.Prefill {
				where = e
			}
			for begun := time.Now(); where.Server.Ledger().Rooms == 0; time.Sleep(time.Millisecond) {
				if time.Since(begun) > patience {
					t.Fatal("the room does not open")
				}
			}
			second := startIn(e, strings.Replace(body, `"sea"`, `"another"`, 1))
			if a, b := first.wait(t), second.wait(t); a.status != 0 || b.status != 0 {
				t.Errorf("%+v and %+v of an engine that has died", a, b)
			}
			select {
			case err := <-done:
				if !errors.Is(err, simhttp.ErrCrashed) || !strings.Contains(err.Error(), "duplicate bootstrap room 1") {
					t.Errorf("it ended with %v", err)
				}
			case <-ctxFor(t).Done():
				t.Fatal("it goes on")
			}
			atRest(t, p)
		})
	}
}

func TestRefuseLists(t *testing.T) {
	cfg := config(simhttp.SGLang)
	cfg.Disagg.RefuseLists = true
	pd := simtest.StartPD(t, 1, 1, cfg)
	p, d := pd.Prefill[0], pd.Decode[0]
	at := func(rooms any) map[string]any {
		return map[string]any{"bootstrap_host": p.PeerHost, "bootstrap_port": p.PeerPort, "bootstrap_room": rooms}
	}
	tests := []struct {
		name, path, body string
		where            map[string]any
		status           int
	}{
		{"a list for n answers", "/v1/chat/completions", with(t, sea, map[string]any{"n": 2}), at([]int{1, 2}), 400},
		{"a list for one", "/v1/chat/completions", sea, at([]int{3}), 400},
		{"a room for n answers", "/v1/chat/completions", with(t, sea, map[string]any{"n": 2}), at(4), 200},
		{"a batch of prompts", "/v1/completions", `{"prompt":["a b","c d"]}`, at([]int{5, 6}), 200},
		{"a batch of one", "/generate", `{"text":["a b"]}`, at([]int{7}), 200},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			prefill, decode := both(t, p, d, tc.path, with(t, tc.body, tc.where))
			if prefill.status != tc.status || decode.status != tc.status {
				t.Errorf("prefill %+v, decode %+v, want %d", prefill, decode, tc.status)
			}
			if tc.status == 400 && !strings.Contains(decode.body, "valid integer, not a list") {
				t.Errorf("decode says %s", decode.body)
			}
		})
	}
	atRest(t, p, d)
}

// TestServeIsCutShort ends engines while requests arrive: none of them may run on.
func TestServeIsCutShort(t *testing.T) {
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		fleet, err := simhttp.NewFleet(config(simhttp.VLLM), []net.Listener{l}, nil, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- fleet.Run(ctx) }()
		e := &simtest.Engine{URL: "http://" + l.Addr().String()}
		var all []*started
		for range 8 {
			all = append(all, startIn(e, `{"prompt":"a"}`))
		}
		first := all[0].wait(t)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if first.status != 200 {
			t.Errorf("%+v", first)
		}
		for _, s := range all[1:] {
			s.wait(t)
		}
	}
}
