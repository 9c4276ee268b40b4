//go:build linux

package launcher

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRedactArgs(t *testing.T) {
	tests := []struct{ name, argv, want string }{
		{"nothing", "e --model m --port 1", "e --model m --port 1"},
		{"separate", "e --api-key K --port 1", "e --api-key *** --port 1"},
		{"equals", "e --api-key=K=L --port 1", "e --api-key=*** --port 1"},
		{"several", "e --api-key K L --port 1", "e --api-key *** *** --port 1"},
		{"with a dash", "e --api-key -K --port 1", "e --api-key *** --port 1"},
		{"without a value", "e --hf-token --port 1", "e --hf-token --port 1"},
		{"last", "e --hf-token", "e --hf-token"},
		{"underscores", "e --api_key K --HF_Token T", "e --api_key *** --HF_Token ***"},
		{"beginnings", "e --api-k K --hf-tok T --admin-api K", "e --api-k *** --hf-tok *** --admin-api ***"},
		{"short form", "e -hft T -m m", "e -hft *** -m m"},
		{"more flags", "e --admin-api-key K --ssl-keyfile-password P --some-secret S", "e --admin-api-key *** --ssl-keyfile-password *** --some-secret ***"},
		{"not secret", "e --max-total-tokens 5 --ssl-keyfile f --api-key-file g --tokenizer t --api a", "e --max-total-tokens 5 --ssl-keyfile f --api-key-file g --tokenizer t --api a"},
		{"url", "e --lora http://u:P@h/x --u=redis://:P@h", "e --lora http://***@h/x --u=redis://***@h"},
		{"url without", "e --x http://h/a@b", "e --x http://h/a@b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Fields(tt.want), redactArgs(strings.Fields(tt.argv))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMask(t *testing.T) {
	if m := maskOf([]string{"e", "--api-key", "short", "--model", "m"}); m != nil {
		t.Error("a word that may stand anywhere is masked")
	}
	m := maskOf([]string{"e", "--api-key", "sk-0123", "sk-012345", "--u", "http://u:passwd@h"})
	if got, want := m.Replace("key='sk-012345' or sk-0123, passwd"), "key='***' or ***, ***"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// testSecrets looks for keys in all that is said of an engine that prints them.
func testSecrets(t *testing.T) {
	t.Parallel()
	const key, token = "sk-hush-0123", "hf_hush_4567"
	dir := t.TempDir()
	for _, mode := range []string{"prefix", "json", "file", "raw"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var out, logs buffer
			cfg := testConfig(1, "env exit=3")
			cfg.EngineArgs = []string{"--api-key", key, "--hf-token=" + token}
			switch mode {
			case "json":
				cfg.JSON = true
			case "file":
				cfg.Log, cfg.LogDir = LogFile, dir
			case "raw":
				cfg.Log = LogRaw
			}
			g := launch(t, cfg, &out, slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
			said := report(g.WaitReady(t.Context()))
			if !strings.Contains(said, "--api-key '***' '--hf-token=***'") {
				t.Errorf("report: %s", said)
			}
			if !strings.Contains(logs.String(), "engine command") {
				t.Errorf("log: %s", logs.String())
			}
			said += out.String() + logs.String() + strings.Join(g.Processes()[0].Tail(tailLines), "\n")
			if mode == "file" {
				text, err := os.ReadFile(filepath.Join(dir, "engine-0.log"))
				if err != nil || !strings.Contains(string(text), "--api-key ***") {
					t.Errorf("%v: %s", err, text)
				}
				said += string(text)
			}
			if strings.Contains(said, key) || strings.Contains(said, token) {
				t.Errorf("a secret is in:\n%s", said)
			}
			if !slices.Contains(g.Processes()[0].Argv(), key) {
				t.Error("the engine did not get its key")
			}
		})
	}
}

// testNotInstalled is an interpreter without the engine.
func testNotInstalled(t *testing.T) {
	t.Parallel()
	g := launch(t, testConfig(1, "err=/usr/bin/python3:_No_module_named_sglang exit=1"), &buffer{}, discardLog())
	if got := report(g.WaitReady(t.Context())); !strings.Contains(got, "hint: the engine is not installed") || !strings.Contains(got, "--engine-python") {
		t.Error(got)
	}
}
