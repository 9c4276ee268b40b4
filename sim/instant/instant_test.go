package instant

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, cfg Config) string {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func client(t testing.TB) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func TestAnswers(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Tokens = 5
	addr := start(t, cfg)
	hc := client(t)
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/generate"} {
		t.Run(path, func(t *testing.T) {
			post := func(body io.Reader) string {
				resp, err := hc.Post("http://"+addr+path, "application/json", body)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				raw, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != 200 {
					t.Fatalf("%d %v", resp.StatusCode, err)
				}
				return string(raw)
			}
			if whole := post(strings.NewReader(`{"stream":false}`)); !json.Valid([]byte(whole)) || !strings.Contains(whole, "token token token token token") {
				t.Errorf("whole answer %q", whole)
			}
			for name, body := range map[string]io.Reader{
				"with a length": strings.NewReader(`{"stream" : true}`),
				"chunked":       iotest.OneByteReader(strings.NewReader(`{"x":1,"stream": true,"y":"` + strings.Repeat("z", 100) + `"}`)),
			} {
				events := strings.Split(strings.TrimSuffix(post(body), "\n\n"), "\n\n")
				if len(events) != 6 || events[5] != "data: [DONE]" {
					t.Fatalf("%s: %d events: %q", name, len(events), events)
				}
				for _, e := range events[:5] {
					if !json.Valid([]byte(strings.TrimPrefix(e, "data: "))) {
						t.Errorf("%s: event %q", name, e)
					}
				}
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	tests := []struct {
		owner, method, path string
		want                int
	}{
		{"sglang", "GET", "/health", 200},
		{"sglang", "GET", "/v1/models", 200},
		{"sglang", "GET", "/server_info", 200},
		{"sglang", "GET", "/v1/loads?include=core", 200},
		{"vllm", "GET", "/version", 200},
		{"vllm", "GET", "/server_info", 404},
		{"vllm", "GET", "/v1/loads", 404},
		{"vllm", "GET", "/nowhere", 404},
		{"vllm", "GET", "/generate", 404},
	}
	addrs := map[string]string{}
	for _, owner := range []string{"sglang", "vllm"} {
		cfg := DefaultConfig()
		cfg.OwnedBy = owner
		addrs[owner] = start(t, cfg)
	}
	for _, tc := range tests {
		t.Run(tc.owner+tc.path, func(t *testing.T) {
			resp, err := client(t).Get("http://" + addrs[tc.owner] + tc.path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			raw, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.want {
				t.Errorf("%d %s, want %d", resp.StatusCode, raw, tc.want)
			}
			if tc.path == "/v1/models" && !strings.Contains(string(raw), tc.owner) {
				t.Errorf("models %s", raw)
			}
		})
	}
}

func TestRawRequests(t *testing.T) {
	addr := start(t, DefaultConfig())
	tests := []struct {
		name, send string
		want       []string // status lines, in order
	}{
		{"two on one connection", "GET /health HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\nConnection: close\r\n\r\n", []string{"200", "200"}},
		{"HTTP/1.0", "GET /health HTTP/1.0\r\n\r\n", []string{"200"}},
		{"expect", "POST /generate HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", []string{"100", "200"}},
		{"no request line", "nonsense\r\n\r\n", []string{"400"}},
		{"no colon", "GET / HTTP/1.1\r\nnonsense\r\n\r\n", []string{"400"}},
		{"bad length", "POST /generate HTTP/1.1\r\nContent-Length: x\r\n\r\n", []string{"400"}},
		{"two lengths", "POST /generate HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", []string{"400"}},
		{"bad chunk", "POST /generate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", []string{"400"}},
		{"endless line", "GET /" + strings.Repeat("x", 20000) + " HTTP/1.1\r\n\r\n", []string{"400"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(c, tc.send); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(c)
			for i, want := range tc.want {
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatalf("answer %d: %v", i, err)
				}
				if fmt.Sprint(resp.StatusCode) != want {
					t.Errorf("answer %d: %d, want %s", i, resp.StatusCode, want)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestGap(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Tokens, cfg.EventsPerWrite, cfg.Gap = 6, 2, 20*time.Millisecond
	addr := start(t, cfg)
	begin := time.Now()
	resp, err := client(t).Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 2*cfg.Gap {
		t.Errorf("three writes took %v, want at least two gaps", took)
	}
}

func TestStopsInAGap(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Gap = time.Hour
	addr := start(t, cfg)
	resp, err := client(t).Post("http://"+addr+"/generate", "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	// The cleanup of start hangs if the connection does not end.
	resp.Body.Close()
}

func TestFinder(t *testing.T) {
	tests := []struct {
		body string
		want bool
	}{
		{`{"stream":true}`, true},
		{"{\"stream\" :\n true}", true},
		{`{"stream":false}`, false},
		{`{"streams":true}`, false},
		{`{"stream":"no","x":1,"stream":true}`, true},
		{``, false},
	}
	for _, tc := range tests {
		for size := 1; size <= len(tc.body)+1; size++ {
			var f finder
			for rest := tc.body; len(rest) > 0; {
				n := min(size, len(rest))
				f.write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if f.found != tc.want {
				t.Errorf("%q in parts of %d: %v, want %v", tc.body, size, f.found, tc.want)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	err := Config{Gap: -1}.Validate()
	for _, flag := range []string{"--engine", "--model", "--instant-tokens", "--instant-gap-ms", "--instant-events-per-write"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func BenchmarkChat(b *testing.B) {
	addr := start(b, DefaultConfig())
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	body := `{"model":"sim","messages":[{"role":"user","content":"Hello"}]}`
	req := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	size := len(render(DefaultConfig()).chat.whole)
	buf := make([]byte, size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(req); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}
