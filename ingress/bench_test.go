package ingress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"smg/engine"
	"smg/wire"
	"smg/worker"
)

// benchSelector costs nothing.
type benchSelector struct{ pick wire.Pick }

func (s *benchSelector) Plan() worker.LeaseID { return worker.LeaseID{Incarnation: 1, Plan: 1} }

func (s *benchSelector) Select(context.Context, *wire.Select) (wire.Pick, error) { return s.pick, nil }

func (*benchSelector) Head(worker.LeaseID) {}

func (s *benchSelector) End(worker.LeaseID, worker.Outcome, bool) {}

// BenchmarkServe measures a request over two loopback sockets: a client and an
// engine that only read and write prepared bytes, the server between them. The
// share of both is in the case relay=none, where the client talks to the engine;
// relay=handler is a net/http handler that reads the body and answers by itself.
func BenchmarkServe(b *testing.B) {
	prompt := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 50) + `"}]}`
	small := `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", 50) + `"}}]}`
	event := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"}}]}\n\n"
	head := "HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: "
	plain := head + "application/json\r\ncontent-length: " + strconv.Itoa(len(small)) + "\r\n\r\n" + small
	cases := []struct{ name, prompt, answer string }{
		{"chat", prompt, plain},
		{"prompt=32k", strings.Replace(prompt, "word ", strings.Repeat("word ", 6500), 1), plain},
		{"sse=100", strings.Replace(prompt, "{", `{"stream":true,`, 1), head + "text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n" + strings.Repeat(chunk(event), 100) + lastOne},
	}
	for _, c := range cases {
		request := []byte(post("/v1/chat/completions", c.prompt, "Authorization: Bearer key", "User-Agent: OpenAI/Python 1.0", "Accept: application/json", "Accept-Encoding: gzip, deflate"))
		b.Run(c.name+"/relay=none", func(b *testing.B) {
			pingPong(b, strings.TrimPrefix(responder(b, c.answer), "http://"), request)
		})
		b.Run(c.name+"/relay=handler", func(b *testing.B) {
			pingPong(b, benchHandler(b, c.answer), request)
		})
		b.Run(c.name+"/relay=server", func(b *testing.B) {
			pingPong(b, benchServer(b, responder(b, c.answer)), request)
		})
	}
}

// benchHandler is what net/http alone costs.
func benchHandler(b *testing.B, answer string) (addr string) {
	b.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	if err != nil {
		b.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, r.ContentLength)); err != nil {
			return
		}
		maps.Copy(w.Header(), resp.Header)
		_, _ = w.Write(body)
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	b.Cleanup(func() {
		srv.Close()
		<-done
	})
	return l.Addr().String()
}

func benchServer(b *testing.B, url string) (addr string) {
	b.Helper()
	engines, err := engine.New(engine.DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	spec := &worker.Spec{ID: worker.IDOf(url), URL: url, Models: []worker.Model{{ID: "m"}}}
	s, err := New(DefaultConfig(), Deps{
		Selector: &benchSelector{wire.Pick{Worker: spec, Policy: "round_robin"}}, Dispatcher: engines, Fleet: &fakeFleet{}, Registerer: newRegistry(), Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Reads: func(worker.Leg) wire.Reads { return 0 },
	})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	b.Cleanup(func() {
		s.Hurry()
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		engines.Close()
	})
	return l.Addr().String()
}

// responder is an engine that does no more than find where a request ends.
func responder(b *testing.B, answer string) (url string) {
	raw := []byte(answer)
	return engineAt(b, func(nc net.Conn, br *bufio.Reader) {
		buf := make([]byte, 256<<10)
		for have, want := 0, -1; ; {
			n, err := br.Read(buf[have:])
			if have += n; err != nil {
				return
			}
			if want < 0 {
				if end := bytes.Index(buf[:have], []byte("\r\n\r\n")); end >= 0 {
					want = end + 4 + declared(buf[:end])
				}
			}
			if have == want {
				if _, err := nc.Write(raw); err != nil {
					return
				}
				have, want = 0, -1
			}
		}
	})
}

func declared(head []byte) int {
	_, after, _ := bytes.Cut(head, []byte("\r\nContent-Length: "))
	digits, _, _ := bytes.Cut(after, []byte("\r"))
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		panic(err)
	}
	return n
}

// pingPong sends request over and over on some connections, and reads the answers.
// Several, because the price of waking an idle machine is not the server's.
func pingPong(b *testing.B, addr string, request []byte) {
	b.Helper()
	b.ReportAllocs()
	b.SetParallelism(8)
	before := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer nc.Close()
		buf := make([]byte, 64<<10)
		for pb.Next() {
			if _, err := nc.Write(request); err != nil {
				b.Error(err)
				return
			}
			if err := readAnswer(nc, buf); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what the process has used, which a busy machine does not stretch.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readAnswer reads up to the end of an answer.
func readAnswer(r io.Reader, buf []byte) error {
	have, want := 0, -1
	for {
		n, err := r.Read(buf[have:])
		if err != nil {
			return err
		}
		have += n
		if want < 0 {
			if end := bytes.Index(buf[:have], []byte("\r\n\r\n")); end >= 0 {
				if want = 0; bytes.Contains(bytes.ToLower(buf[:end]), []byte("content-length")) {
					low := bytes.ReplaceAll(buf[:end], []byte("content-length"), []byte("Content-Length"))
					want = end + 4 + declared(low)
				}
			}
		}
		switch {
		case want < 0:
		case have == want, want == 0 && bytes.HasSuffix(buf[:have], []byte(lastOne)):
			return nil
		case want > 0 && have > want:
			return fmt.Errorf("%d bytes behind an answer", have-want)
		}
	}
}
