// Package clients drives `smg serve` with simulated engines by the official OpenAI
// client for Go, and by net/http with HTTP/2 from the first byte on. It is a module of
// its own, so that the product does not depend on them.
package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

var gateway string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	port, metrics := freePort(), freePort()
	gateway = "http://127.0.0.1:" + port
	bin := os.Getenv("SMG_BIN_DIR")
	if bin == "" {
		bin = "../../../bin"
	}
	cmd := exec.Command(filepath.Join(bin, "smg"), "serve", "--backend", "sim", "--prefill-replicas", "1", "--decode-replicas", "1",
		"--host", "127.0.0.1", "--port", port, "--worker-base-port", freePort(), "--bootstrap-base-port", freePort(),
		"--router-prometheus-host", "127.0.0.1", "--router-prometheus-port", metrics, "--", "--time-scale", "0")
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(gateway + "/readiness")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return m.Run()
			}
		}
		if time.Now().After(end) {
			fmt.Fprintf(os.Stderr, "the gateway does not get ready: %v\n%s", err, &log)
			return 1
		}
	}
}

func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func client() openai.Client {
	return openai.NewClient(option.WithBaseURL(gateway+"/v1/"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

func question(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Where is Käse made?")},
		Temperature: openai.Float(0), MaxTokens: openai.Int(30),
	}
}

func TestChatAndStream(t *testing.T) {
	c := client()
	whole, err := c.Chat.Completions.New(t.Context(), question("sim"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	stream := c.Chat.Completions.NewStreaming(t.Context(), question("sim"))
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if want := whole.Choices[0].Message.Content; want == "" || text.String() != want {
		t.Errorf("streamed %q, whole %q", &text, want)
	}
}

func TestNotFound(t *testing.T) {
	c := client()
	_, err := c.Chat.Completions.New(t.Context(), question("nobody"))
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound || refused.Code != "model_not_found" {
		t.Errorf("got %v", err)
	}
}

func TestCancel(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	c := client()
	stream := c.Chat.Completions.NewStreaming(ctx, question("sim"))
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	leave()
	for stream.Next() {
	}
	stream.Close()
	if _, err := c.Chat.Completions.New(t.Context(), question("sim")); err != nil {
		t.Error(err)
	}
}

// TestHTTP2 has many streams on one connection.
func TestHTTP2(t *testing.T) {
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	c := http.Client{Transport: transport}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			body := `{"model":"sim","messages":[{"role":"user","content":"Hello"}],"stream":true,"max_tokens":10}`
			resp, err := c.Post(gateway+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK || !bytes.HasSuffix(raw, []byte("data: [DONE]\n\n")) {
				t.Errorf("HTTP/%d, status %d, %v: %s", resp.ProtoMajor, resp.StatusCode, err, raw)
			}
		})
	}
	all.Wait()
}
