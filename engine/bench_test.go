package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"smg/engine/enginetest"
)

// BenchmarkSend measures one exchange, the responder's share included: it is
// a loop of read and write on a bare socket, the same for both clients.
func BenchmarkSend(b *testing.B) {
	prompt := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 50) + `"}]}`
	small := `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 50) + `"}}]}`
	event := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"}}]}\n\n"
	var sse strings.Builder
	for range 100 {
		sse.WriteString(chunk(event))
	}
	sse.WriteString("0\r\n\r\n")
	cases := []struct {
		name, prompt, answer string
	}{
		{"chat", prompt, answerHead("application/json", len(small)) + small},
		{"prompt=32k", strings.Repeat(prompt, 32<<10/len(prompt)), answerHead("application/json", len(small)) + small},
		{"sse=100", prompt, "HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\n" +
			"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n" + sse.String()},
	}
	for _, c := range cases {
		b.Run(c.name+"/client=engine", func(b *testing.B) {
			client := newClient(b, DefaultConfig())
			target := newTarget(b, client, rawResponder(b, c.answer))
			// A server's request context can end.
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			body := []byte(c.prompt)
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(ctx)
				resp, err := client.Send(ctx, target, &Request{
					Method: "POST", Path: "/v1/chat/completions", Body: body,
					Fields: []Field{{"Content-Type", "application/json"}, {"X-Request-Id", "chatcmpl-0123456789"}},
				})
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Next()
				}
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
				resp.Close()
				cancel()
			}
			if got := client.Stats().Dials; got != 1 {
				b.Fatalf("%d connections", got)
			}
		})
		b.Run(c.name+"/client=net_http", func(b *testing.B) {
			transport := &http.Transport{DisableCompression: true}
			defer transport.CloseIdleConnections()
			url := rawResponder(b, c.answer) + "/v1/chat/completions"
			body := []byte(c.prompt)
			buf := make([]byte, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header["Content-Type"] = []string{"application/json"}
				req.Header["X-Request-Id"] = []string{"chatcmpl-0123456789"}
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(buf)
				}
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
				resp.Body.Close()
				cancel()
			}
		})
	}
}

// rawResponder answers every request with the same bytes and does no more
// than find where a request ends.
func rawResponder(tb testing.TB, answer string) (url string) {
	raw := []byte(answer)
	return enginetest.Serve(tb, func(nc net.Conn) {
		buf := make([]byte, 256<<10)
		for {
			if _, err := readRequest(nc, buf); err != nil {
				return
			}
			if _, err := nc.Write(raw); err != nil {
				return
			}
		}
	})
}
