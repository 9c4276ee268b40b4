package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"smg/sim/simtest"
)

// TestRecordAndReplay: traffic of a gateway is recorded until Ctrl-C, and replayed
// under policies that it did not have. No prompt and no key is in the file.
func TestRecordAndReplay(t *testing.T) {
	const requests = 12
	for _, tt := range []struct {
		name, file string
		args       []string
		topology   string
	}{
		{"one_process", "traffic.jsonl", nil, "single"},
		{"split_and_compressed", "traffic.jsonl.gz", nil, "split"},
		{"whole_prompts", "traffic.jsonl", []string{"--record-prompts"}, "single"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parallel(t)
			path := filepath.Join(t.TempDir(), tt.file)
			engines := urls(simtest.StartN(t, 3, simtest.Config()))
			g := launched(t, engines, append([]string{"--record", path, "--topology", tt.topology, "--policy", "round_robin"}, tt.args...)...)
			for i := range requests {
				body := fmt.Sprintf(`{"model":"sim","max_tokens":4,"messages":[{"role":"user","content":"the secret question of customer %d"}]}`, i%4)
				if a := do(t, "POST", g.url+"/v1/chat/completions", body, "Content-Type", "application/json", "X-SMG-Routing-Key", "secret-session"); a.status != 200 {
					t.Fatalf("status %d: %s", a.status, a.body)
				}
			}
			g.signal(syscall.SIGINT)
			g.ends(0)
			g.says("recording complete")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if shows := strings.Contains(string(data), "the secret question"); shows != (len(tt.args) > 0) || strings.Contains(string(data), "secret-session") {
				t.Errorf("the recording shows the prompt: %v:\n%s", shows, data)
			}
			r := start(t, "smg", "replay", "--policy", "cache_aware,least_load", path)
			r.ends(0)
			out := r.out.String()
			for _, want := range []string{
				fmt.Sprintf(`: %d requests in `, requests), `(?m)^3 workers`, `recorded under round_robin`,
				`(?m)^ +greedy, clairvoyant .* 0$`, `(?m)^ +as recorded .* 0$`, `(?m)^ +cache_aware .* 0$`, `(?m)^ +least_load .* 0$`,
			} {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			r.silent("note:")
		})
	}
}

// TestRecordOfLegs: each leg has a file of its own. That of the prefill leg is
// replayed, with its buckets; that of the decode leg says why it is not.
func TestRecordOfLegs(t *testing.T) {
	parallel(t)
	path := filepath.Join(t.TempDir(), "traffic.jsonl")
	g := serveRoles(t, roles{prefill: 2, decode: 2}, "--router-record", path, "--", "--time-scale", "0")
	const requests = 5
	for range requests {
		if _, err := ask(t.Context(), g.url+questions[0].path, fmt.Sprintf(questions[0].body, "")); err != nil {
			t.Fatal(err)
		}
	}
	g.signal(syscall.SIGINT)
	g.ends(130)
	r := start(t, "smg", "replay", "--policy", "bucket,cache_aware", strings.Replace(path, ".jsonl", ".prefill.jsonl", 1))
	r.ends(0)
	for _, want := range []string{fmt.Sprintf(`: %d requests in `, requests), "(?m)^2 workers", "prefill leg", `(?m)^ +bucket .* 0$`} {
		if !regexp.MustCompile(want).MatchString(r.out.String()) {
			t.Errorf("no %q in\n%s", want, r.out.String())
		}
	}
	d := start(t, "smg", "replay", strings.Replace(path, ".jsonl", ".decode.jsonl", 1))
	d.ends(1)
	d.says("it is of the decode leg")
}
