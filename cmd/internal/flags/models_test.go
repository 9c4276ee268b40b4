package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestModels(t *testing.T) {
	args := "launch --worker-urls http://a:1 --model-alias a=m --model-alias b=m=n --model-alias a=m --drain-settle-secs 0 --remove-unhealthy-workers"
	want := Models{Backend: "auto", Aliases: []ModelAlias{{"a", "m"}, {"b", "m=n"}, {"a", "m"}}, RemoveUnhealthy: true}
	if diff := cmp.Diff(want, must(t, nil, strings.Fields(args)...).Launch.Models); diff != "" {
		t.Error(diff)
	}
	if got := must(t, nil, "serve", "--backend", "sim", "--router-drain-settle-secs", "9").Launch.Models.DrainSettle; got != 9*time.Second {
		t.Errorf("serve drains for %v, want 9s", got)
	}
}

// TestTokenizerFlags takes what other gateways need to make tokens of prompts, and says
// that it is not used; but not where the engines were given it.
func TestTokenizerFlags(t *testing.T) {
	const all = "model-path m --PREFIXtokenizer-path /t --PREFIXchat-template c.jinja --PREFIXdisable-tokenizer-autoload"
	want := Tokenizer{Model: "m", Path: "/t", ChatTemplate: "c.jinja", NoAutoload: true}
	for _, tt := range []struct {
		name, args string
		want       Tokenizer
		notices    int
	}{
		{"launch", "launch --" + strings.ReplaceAll(all, "PREFIX", ""), want, 4},
		{"by the other name", "launch --model m", Tokenizer{Model: "m"}, 1},
		{"serve", "serve --backend sim --dp-size 2 --router-" + strings.ReplaceAll(all, "PREFIX", "router-"), want, 4},
		{"the engines'", "serve --backend sim --dp-size 2 --model m --tokenizer-path /t --chat-template c.jinja", Tokenizer{Model: "m", Path: "/t", ChatTemplate: "c.jinja"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := must(t, nil, strings.Fields(tt.args)...)
			if diff := cmp.Diff(tt.want, cmd.Launch.Models.Tokenizer); diff != "" {
				t.Error(diff)
			}
			if n := strings.Count(strings.Join(cmd.Notices, "\n"), "is not used: engines that speak HTTP"); n != tt.notices {
				t.Errorf("notices %q", cmd.Notices)
			}
			if child, err := Parse(Input{Command: nameIngress, Args: append(cmd.IngressArgs(), "--nats-url=n"), Env: env(nil), Child: true}); err != nil || len(child.Notices) != 0 {
				t.Errorf("an ingress of it: %v, %+v", err, child)
			}
		})
	}
}

func TestKindsOfEngines(t *testing.T) {
	for args, want := range map[string]string{
		"launch --backend vllm": "vllm", "launch --runtime sglang": "sglang", "launch": AutoBackend, "serve --backend sim --router-backend llamacpp": "llamacpp",
	} {
		if got := must(t, nil, strings.Fields(args)...).Launch.Models.Backend; got != want {
			t.Errorf("%s: engines of kind %q, want %q", args, got, want)
		}
	}
	for _, kind := range []string{"trtllm", "gemini", "abacus"} {
		_, code, text := run(nil, "launch", "--runtime", kind)
		if code != 2 || !strings.Contains(text, "use one of auto, sglang, vllm, llamacpp, sim") || strings.Contains(text, "not supported yet") == (kind == "abacus") {
			t.Errorf("%s: exit %d\n%s", kind, code, text)
		}
	}
}
