package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/sim/simtest"
)

// hostile is what an engine writes instead of an answer. Forever comes again and again
// after the begin, with a pause before each, until nobody reads.
type hostile struct {
	name           string
	begin, forever string
	pause          time.Duration
	refused        bool // the client has to hear of an error before anything else
}

const hostileStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func hostiles() []hostile {
	const kib = 1 << 10
	ok := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 32*kib, strings.Repeat("x", 32*kib))
	return []hostile{
		{name: "endless_head", begin: "HTTP/1.1 200 OK\r\n", forever: "X-More: " + strings.Repeat("a", kib) + "\r\n", refused: true},
		{name: "endless_field", begin: "HTTP/1.1 200 OK\r\nX-More: ", forever: strings.Repeat("a", kib), refused: true},
		{name: "endless_1xx", forever: "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", refused: true},
		{name: "10000_fields", begin: ok + strings.Repeat("X-One: 1\r\n", 10_000) + "Content-Length: 2\r\n\r\n{}", refused: true},
		{name: "endless_chunk_line", begin: ok + "Transfer-Encoding: chunked\r\n\r\n1;", forever: strings.Repeat("a", kib)},
		{name: "chunk_of_2_63", begin: ok + "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", forever: strings.Repeat("a", kib)},
		{name: "negative_length", begin: ok + "Content-Length: -1\r\n\r\n{}", refused: true},
		{name: "two_lengths", begin: ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", refused: true},
		{name: "length_and_chunks", begin: ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"},
		{name: "length_too_long", begin: ok + "Content-Length: 1000\r\n\r\n{}"},
		{name: "length_too_short", begin: ok + "Content-Length: 2\r\n\r\n{}" + strings.Repeat("HTTP/1.1 200 OK\r\n", 100)},
		{name: "no_HTTP", begin: "SSH-2.0-OpenSSH_9.6\r\n", refused: true},
		{name: "gzip_that_is_none", begin: ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"},
		{name: "a_byte_at_a_time", begin: hostileStream, forever: "1\r\nd\r\n", pause: 100 * time.Millisecond},
		{name: "no_line_end", begin: hostileStream, forever: chunk},
		{name: "event_of_32_MiB", begin: hostileStream + "6\r\ndata: \r\n" + strings.Repeat(chunk, kib) + "10\r\n\n\ndata: [DONE]\n\n\r\n0\r\n\r\n"},
	}
}

// serveHostile answers on a connection of the gateway: pages as an engine does, questions with
// the case that is named in them.
func serveHostile(nc net.Conn, cases []hostile) {
	defer nc.Close()
	br := bufio.NewReader(nc)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if req.Method == http.MethodGet {
			page := `{"object":"list","data":[{"id":"hostile","object":"model"}]}`
			if req.URL.Path != "/health" && req.URL.Path != "/v1/models" {
				page = strings.Repeat("[{", 5000) // junk, and deep
			}
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
			continue
		}
		for _, c := range cases {
			if !bytes.Contains(body, []byte("<"+c.name+">")) {
				continue
			}
			_, err := io.WriteString(nc, c.begin)
			for c.forever != "" && err == nil {
				time.Sleep(c.pause)
				_, err = io.WriteString(nc, c.forever)
			}
			return
		}
		return
	}
}

// startHostile runs the engine until the test ends.
func startHostile(t *testing.T, cases []hostile) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, nc)
			mu.Unlock()
			all.Go(func() { serveHostile(nc, cases) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, nc := range conns {
			nc.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

// TestHostileEngines has an engine that writes what it should not, to many clients at
// a time. The gateway's memory stays within bounds, each client hears of it or leaves,
// the other engine serves, and nothing is left behind.
func TestHostileEngines(t *testing.T) {
	parallel(t)
	const clients = 30
	bound := 64.0 // MiB above the start
	if underRace {
		bound *= 6 // shadow memory
	}
	cases := hostiles()
	good := simtest.Start(t, simtest.Config())
	g := launched(t, []string{good.URL, startHostile(t, cases)}, "--policy", "round_robin", "--disable-retries", "--disable-circuit-breaker",
		"--load-monitor-interval", "1", "--shutdown-grace-period-secs", "0")
	askChat(t, g.url)
	before, goroutines := g.memory(t), total(t, g.metrics, "go_goroutines")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g.t = t
			body := `{"model":"hostile","messages":[{"role":"user","content":"<` + c.name + `>"}],"stream":true}`
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					status := g.hears(t, body)
					if c.refused && status < 500 {
						t.Errorf("status %d, want an error", status)
					}
				})
			}
			askChat(t, g.url)
			all.Wait()
			askChat(t, g.url)
			if now := g.memory(t); now > before+bound {
				t.Errorf("%.0f MiB, %.0f before: more than %.0f above", now, before, bound)
			}
			await(t, "nothing to be in flight", func() bool { return total(t, g.metrics, "smg_worker_requests_active") == 0 })
		})
	}
	g.t = t
	await(t, "the goroutines to end", func() bool { return total(t, g.metrics, "go_goroutines") <= goroutines+10 })
	g.stop(0)
}

// hears asks, reads for two seconds at most, and leaves. It returns the status, 0 if
// none came.
func (g *gateway) hears(t *testing.T, body string) (status int) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), patience)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			t.Errorf("no answer in %v", patience)
		}
		return 0
	}
	defer resp.Body.Close()
	defer time.AfterFunc(2*time.Second, leave).Stop()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// memory is what the gateway's process has, in MiB.
func (g *gateway) memory(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}
