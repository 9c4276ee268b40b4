package simhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"smg/sim"
	"smg/sim/simctl"
)

// TestDriverClock steps a driver by hand under a clock that only the test
// moves.
func TestDriverClock(t *testing.T) {
	tests := []struct {
		name  string
		scale float64
		want  time.Duration // real time to the first token of 1000 at 1000/s
	}{
		{"real time", 1, time.Second},
		{"ten times faster", 0.1, 100 * time.Millisecond},
		{"twice as slow", 2, 2 * time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			cfg := sim.DefaultConfig()
			cfg.PrefillTokensPerSecond = 1000
			engine, err := sim.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			d := newDriver(engine, tc.scale, func() time.Time { return now })
			j, err := d.submit([]string{"r"}, []sim.Request{{PromptTokens: 1000, OutputTokens: 1}}, true)
			if err != nil {
				t.Fatal(err)
			}
			wait, due := d.step()
			if !due || wait != tc.want {
				t.Fatalf("first wait %v %v, want %v", wait, due, tc.want)
			}
			// Half-way the time stands still for an hour.
			now = now.Add(tc.want / 2)
			d.pause(true)
			if _, due := d.step(); due {
				t.Error("something is due while time stands still")
			}
			now = now.Add(time.Hour)
			d.pause(false)
			if wait, _ := d.step(); wait != tc.want-tc.want/2 {
				t.Errorf("wait after the pause %v, want %v", wait, tc.want-tc.want/2)
			}
			now = now.Add(tc.want)
			if _, due := d.step(); due {
				t.Error("something is left to do")
			}
			if p := j.progress(nil); !p[0].done || p[0].tokens != 1 {
				t.Errorf("progress %+v", p)
			}
		})
	}
}

func TestDriverWithoutWaiting(t *testing.T) {
	engine, err := sim.New(sim.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(engine, 0, func() time.Time { return time.Unix(1000, 0) })
	j, err := d.submit([]string{"r"}, []sim.Request{{PromptTokens: 30000, OutputTokens: 300}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for wait, due := d.step(); due; wait, due = d.step() {
		if wait != 0 {
			t.Fatalf("a wait of %v", wait)
		}
	}
	if p := j.progress(nil); !p[0].done || p[0].tokens != 300 {
		t.Errorf("progress %+v", p)
	}
}

func TestRecorderForgets(t *testing.T) {
	rc := &recorder{clock: time.Now}
	r := httptest.NewRequest(http.MethodPost, "/x", nil)
	big := make([]byte, maxRecordBytes/2)
	for range 3 {
		rc.body(rc.begin(r, true), big)
	}
	if list := rc.list(""); len(list) != 2 || list[0].Seq != 2 {
		t.Errorf("%d records", len(list))
	}
}

func quietServer(t testing.TB, kind Kind) *Server {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Kind, cfg.TimeScale = kind, 0
	s, err := New(cfg, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzRequest sends any body to every inference route. Nothing may panic, every
// answer is JSON or events, and nothing may be left behind.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"Hi"}],"stream":true,"n":2,"stop":["a"]}`,
		`{"prompt":["a","b"],"max_tokens":3,"echo":true}`, `{"prompt":[[1,2],[3]]}`,
		`{"text":"x","rid":["a"],"sampling_params":{"n":2,"max_new_tokens":4}}`,
		`{"input":"x","encoding_format":"base64"}`, `{"rid":"x"}`, `[]`, `{"prompt":[null]}`, `{"messages":[{}]}`, `{"n":1e300}`,
	} {
		f.Add(body)
	}
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/generate", "/abort_request"}
	f.Fuzz(func(t *testing.T, body string) {
		for _, kind := range []Kind{SGLang, VLLM} {
			s := quietServer(t, kind)
			ctx := t.Context()
			go s.driver.run(ctx)
			for _, path := range paths {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)).WithContext(ctx))
				isJSON := json.Valid(w.Body.Bytes())
				isEvents := strings.HasPrefix(w.Body.String(), "data: ") && strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n")
				if !isJSON && !isEvents && w.Body.Len() > 0 {
					t.Errorf("%s: %d %q", path, w.Code, w.Body)
				}
				if w.Code >= 500 {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
			}
			if l := s.Ledger(); !l.Idle() {
				t.Errorf("left behind: %+v", l)
			}
		}
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c\n\r\t\x00\x7f", "é🙂<&>", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && got != want {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func FuzzFaults(f *testing.F) {
	f.Add([]byte(`{"rules":[{"match":{"first":1},"delay":"1ms","status":500,"body":{"a":1}}],"window":0}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		faults, err := decodeFaults(bytes.NewReader(raw))
		if err != nil {
			return
		}
		again, err := json.Marshal(faults)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeFaults(bytes.NewReader(again))
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		third, err := json.Marshal(back)
		if err != nil || !bytes.Equal(again, third) {
			t.Errorf("%s became %s (%v)", again, third, err)
		}
	})
}

func TestLoadsOverrideNamesTheWireFields(t *testing.T) {
	var o simctl.LoadsOverride
	if err := json.Unmarshal([]byte(`{"num_waiting_reqs":1,"token_usage":0.5}`), &o); err != nil {
		t.Fatal(err)
	}
	one, half := 1, 0.5
	if diff := cmp.Diff(simctl.LoadsOverride{Waiting: &one, TokenUsage: &half}, o); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkChat is the cost of a small chat on an engine without waiting,
// without the network.
func BenchmarkChat(b *testing.B) {
	s := quietServer(b, SGLang)
	ctx := b.Context()
	done := make(chan struct{})
	go func() { defer close(done); s.driver.run(ctx) }()
	body := `{"max_tokens":16,"ignore_eos":true,"messages":[{"role":"user","content":"Hello"}]}`
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
		_, _ = io.Copy(io.Discard, w.Body)
	}
}
