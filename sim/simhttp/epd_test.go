package simhttp_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

func picture(content string) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(content))
}

// chatAbout is a chat with a text and pictures.
func chatAbout(urls ...string) string {
	parts := []string{`{"type":"text","text":"What is to be seen here, and what is not?"}`}
	for _, u := range urls {
		parts = append(parts, fmt.Sprintf(`{"type":"image_url","image_url":{"url":%q}}`, u))
	}
	return `{"temperature":0,"messages":[{"role":"user","content":[` + strings.Join(parts, ",") + `]}]}`
}

// primer is a chat with one picture only, as an encoder gets it.
func primer(url string) string {
	return fmt.Sprintf(`{"max_tokens":1,"stream":false,"messages":[{"role":"user","content":[{"image_url":{"detail":"low","url":%q},"type":"image_url"}]}]}`, url)
}

func transfersOf(t *testing.T, e *simtest.Engine) simctl.Transfers {
	t.Helper()
	tr, err := e.Transfers(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestEPDSaysTheSame(t *testing.T) {
	regular := callerOf(t, simtest.Start(t, config(simhttp.SGLang)))
	epd := simtest.StartEPD(t, 2, 1, 1, config(simhttp.VLLM))
	p, d := epd.Prefill[0], epd.Decode[0]
	cat, dog := picture("a cat"), "http://pictures.invalid/dog.png"
	body := chatAbout(cat, dog, cat)
	_, plain := regular.post("/v1/chat/completions", body)
	want := textOf(t, plain)
	if _, other := regular.post("/v1/chat/completions", chatAbout(dog, dog, cat)); textOf(t, other) == want {
		t.Error("the answer does not depend on the pictures")
	}
	for i, url := range []string{cat, dog} {
		if status, text := callerOf(t, epd.Encode[i]).post("/v1/chat/completions", primer(url)); status != 200 {
			t.Fatalf("encoder %d: %d %s", i, status, text)
		}
	}
	for _, stream := range []bool{false, true} {
		body := with(t, body, map[string]any{"stream": stream})
		_, answer := callerOf(t, p).post("/v1/chat/completions", with(t, body, produce()))
		status, answer := callerOf(t, d).post("/v1/chat/completions", consume(t, body, paramsOf(t, answer)))
		if got := textOf(t, answer); status != 200 || got != want {
			t.Errorf("%d %q, want %q", status, got, want)
		}
	}
	if tr := transfersOf(t, p); tr.EmbeddingHits != 2 || tr.EmbeddingMisses != 0 || tr.Encoded != 0 {
		t.Errorf("prefill counts %+v", tr)
	}
	if tr := transfersOf(t, d); tr.Encoded+tr.EmbeddingHits+tr.EmbeddingMisses != 0 || tr.Received != 2 {
		t.Errorf("decode counts %+v", tr)
	}
	for _, e := range epd.Encode {
		if tr := transfersOf(t, e); tr.Encoded != 1 {
			t.Errorf("encoder counts %+v", tr)
		}
	}
	atRest(t, epd.All()...)
}

func TestMissingEmbeddings(t *testing.T) {
	body := chatAbout(picture("a cow"))
	t.Run("prefill encodes by itself", func(t *testing.T) {
		cfg := config(simhttp.VLLM)
		cfg.Disagg.ECPeers = []string{fmt.Sprintf("http://127.0.0.1:%d", freePort(t))}
		epd := simtest.StartEPD(t, 1, 1, 0, cfg)
		p := epd.Prefill[0]
		for range 2 {
			callerOf(t, p).ask("/v1/chat/completions", body)
		}
		if tr := transfersOf(t, p); tr.EmbeddingMisses != 1 || tr.Encoded != 1 {
			t.Errorf("%+v", tr)
		}
		idle(t, p)
	})
	t.Run("strict", func(t *testing.T) {
		cfg := config(simhttp.VLLM)
		cfg.Disagg.ECStrict = true
		p := simtest.StartEPD(t, 1, 1, 0, cfg).Prefill[0]
		if status, text := callerOf(t, p).post("/v1/chat/completions", body); status != 500 || !strings.Contains(text, "no encoder has the embedding") {
			t.Errorf("%d %s", status, text)
		}
		idle(t, p)
	})
	t.Run("a shared directory", func(t *testing.T) {
		cfg := config(simhttp.VLLM)
		cfg.Disagg.ECDir = t.TempDir()
		cfg.Disagg.ECRole = simhttp.ECProducer
		encoder := simtest.Start(t, cfg)
		cfg.Disagg.ECRole, cfg.Disagg.ECStrict = simhttp.ECConsumer, true
		consumer := simtest.Start(t, cfg)
		callerOf(t, encoder).ask("/v1/chat/completions", primer(picture("a cow")))
		callerOf(t, consumer).ask("/v1/chat/completions", body)
		if tr := transfersOf(t, consumer); tr.EmbeddingHits != 1 {
			t.Errorf("%+v", tr)
		}
		files, err := filepath.Glob(filepath.Join(cfg.Disagg.ECDir, "*"))
		if err != nil || len(files) != 1 {
			t.Errorf("%q %v", files, err)
		}
	})
	t.Run("a directory that is none", func(t *testing.T) {
		cfg := config(simhttp.VLLM)
		cfg.Disagg.ECRole, cfg.Disagg.ECDir = simhttp.ECProducer, filepath.Join(t.TempDir(), "none")
		if status, text := callerOf(t, simtest.Start(t, cfg)).post("/v1/chat/completions", primer(picture("x"))); status != 500 {
			t.Errorf("%d %s", status, text)
		}
		if _, err := os.Stat(cfg.Disagg.ECDir); err == nil {
			t.Error("the directory was made")
		}
	})
}

func TestEncoderRefusals(t *testing.T) {
	cfg := config(simhttp.VLLM)
	cfg.Disagg.MaxMediaBytes = 1000
	encoder := simtest.StartEPD(t, 1, 0, 0, cfg).Encode[0]
	one := primer(picture("x"))
	for _, tc := range []struct{ name, path, body, want string }{
		{"text only", "/v1/chat/completions", `{"max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`, "the request has none"},
		{"many tokens", "/v1/chat/completions", with(t, one, map[string]any{"max_tokens": 2}), "max_tokens must be 1"},
		{"no limit", "/v1/chat/completions", chatAbout(picture("x")), "max_tokens must be 1"},
		{"streamed", "/v1/chat/completions", with(t, one, map[string]any{"stream": true}), "stream false"},
		{"a completion", "/v1/completions", `{"prompt":"Hi","max_tokens":1}`, "does nothing else"},
		{"no URL", "/v1/chat/completions", primer(""), "needs a url"},
		{"a file", "/v1/chat/completions", primer("file:///etc/passwd"), "HTTP or data URL"},
		{"no host", "/v1/chat/completions", primer("http:///x.png"), "no host"},
		{"no data", "/v1/chat/completions", primer("data:image/png;base64,"), "empty"},
		{"no comma", "/v1/chat/completions", primer("data:image/png;base64"), "no data"},
		{"not base64", "/v1/chat/completions", primer("data:image/png;base64,%%%%"), "no base64"},
		{"plain data", "/v1/chat/completions", primer("data:image/png,abcd"), "only base64"},
		{"a sound as a picture", "/v1/chat/completions", primer("data:audio/wav;base64,YQ=="), "audio/wav"},
		{"too large", "/v1/chat/completions", primer(picture(strings.Repeat("x", 1003))), "larger than 1000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if status, text := callerOf(t, encoder).post(tc.path, tc.body); status != http.StatusBadRequest || !strings.Contains(text, tc.want) {
				t.Errorf("%d %s, want 400 with %q", status, text, tc.want)
			}
		})
	}
	t.Run("a sound", func(t *testing.T) {
		callerOf(t, encoder).ask("/v1/chat/completions", `{"max_completion_tokens":1,"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"YQ==","format":"wav"}}]}]}`)
	})
	if status, _ := callerOf(t, encoder).do(http.MethodGet, "/ec/unknown", ""); status != 404 {
		t.Errorf("an unknown embedding: %d", status)
	}
	idle(t, encoder)
}

// TestEncodingIsWork aborts a primer while it is encoded.
func TestEncodingIsWork(t *testing.T) {
	cfg := slow(simhttp.VLLM)
	cfg.Core.PrefillTokensPerSecond = 1
	encoder := simtest.StartEPD(t, 1, 0, 0, cfg).Encode[0]
	s := startIn(encoder, primer(picture("x")))
	await(t, encoder, "it encodes", func(l simctl.Ledger) bool { return l.Running == 1 && l.BlocksHeld > 0 })
	s.cancel()
	s.wait(t)
	idle(t, encoder)
	if tr := transfersOf(t, encoder); tr.Encoded != 0 {
		t.Errorf("%+v", tr)
	}
}
