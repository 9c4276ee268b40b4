package service

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// served runs a stage over a free port until the test ends.
func served(t *testing.T, run func(ctx context.Context, l net.Listener) error) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func fetched(t *testing.T, url string) (status int, kind, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

// TestTypeOfThePage holds the type of the page of metrics to what scrapers know.
func TestTypeOfThePage(t *testing.T) {
	url := served(t, func(ctx context.Context, l net.Listener) error {
		return ServePage(ctx, l, Page{Metrics: NewRegistry()}, slog.New(slog.DiscardHandler))
	})
	status, kind, body := fetched(t, url+"/metrics")
	if status != 200 || kind != "text/plain; version=0.0.4; charset=utf-8" || !strings.Contains(body, "go_goroutines") {
		t.Errorf("%d %q %.80s", status, kind, body)
	}
}

// TestProfiles shows profiles, and not the command line.
func TestProfiles(t *testing.T) {
	url := served(t, func(ctx context.Context, l net.Listener) error {
		return Pprof(l, slog.New(slog.DiscardHandler)).Run(ctx)
	})
	if status, _, body := fetched(t, url+"/debug/pprof/goroutine?debug=1"); status != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("%d %.80s", status, body)
	}
	if status, _, _ := fetched(t, url+"/debug/pprof/cmdline"); status != http.StatusForbidden {
		t.Errorf("the command line: %d", status)
	}
	if l, err := BindPprof("", ""); l != nil || err != nil {
		t.Errorf("%v %v", l, err)
	}
	taken := strings.TrimPrefix(url, "http://")
	if _, err := BindPprof("router-", taken); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("a port that is taken: %v", err)
	}
}

// TestProfilesOfChildren shows those of children on the parent's address, and that of one
// that is away as a bad gateway.
func TestProfilesOfChildren(t *testing.T) {
	page := func(profiles bool) string {
		return served(t, func(ctx context.Context, l net.Listener) error {
			return ServePage(ctx, l, Page{Metrics: NewRegistry(), Profiles: profiles}, slog.New(slog.DiscardHandler))
		})
	}
	shows, silent := page(true), page(false)
	url := served(t, func(ctx context.Context, l net.Listener) error {
		return Pprof(l, slog.New(slog.DiscardHandler), Profiled{"selector regular", shows}, Profiled{"ingress", silent}, Profiled{"gone", "http://127.0.0.1:1"}).Run(ctx)
	})
	for path, want := range map[string]int{
		"/debug/pprof/": 200, "/selector-regular/debug/pprof/": 200, "/selector-regular/debug/pprof/goroutine?debug=1": 200,
		"/selector-regular/debug/pprof/profile?seconds=1": 200, "/selector-regular/debug/pprof/cmdline": 403,
		"/selector-regular/metrics": 404, "/ingress/debug/pprof/": 404, "/gone/debug/pprof/heap": 502, "/other/debug/pprof/": 404,
	} {
		if status, _, body := fetched(t, url+path); status != want || want == 200 && body == "" {
			t.Errorf("%s: %d %.80s, want %d", path, status, body, want)
		}
	}
}
