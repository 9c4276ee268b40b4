package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/cmd/internal/flags"
	"smg/policy"
	"smg/study"
	"smg/worker"
)

// TestStudiesHaveTheDefaultsOfFlags: what is studied is what a gateway has whose flags
// nobody sets.
func TestStudiesHaveTheDefaultsOfFlags(t *testing.T) {
	launch := flags.DefaultLaunch()
	want := launch.PolicyConfig(launch.Policy)
	got := study.FlagDefaults()
	got.Policy = launch.Policy
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-flags +study):\n%s", diff)
	}
}

// TestEnginesAreThoseOfTheStudy: without flags the engines are those of bench/study,
// but for the size of blocks.
func TestEnginesAreThoseOfTheStudy(t *testing.T) {
	cmd := parsed(t, "x")
	want := study.DefaultConfig().Engine
	got := engineOf(cmd.Replay)
	if got.KVBlocks*got.BlockSize != want.KVBlocks*want.BlockSize {
		t.Errorf("%d tokens of KV, want %d", got.KVBlocks*got.BlockSize, want.KVBlocks*want.BlockSize)
	}
	want.KVBlocks, want.BlockSize, want.ContextLength = got.KVBlocks, got.BlockSize, got.ContextLength
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-study +replay):\n%s", diff)
	}
}

func parsed(t *testing.T, args ...string) *flags.Command {
	t.Helper()
	cmd, err := flags.Parse(flags.Input{Args: append([]string{"replay"}, args...), Env: func(string) (string, bool) { return "", false }})
	if err == nil {
		err = cmd.Validate(worker.CanonicalURL)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// written is a recording of a leg with two workers and so many requests, one a second.
func written(t *testing.T, leg string, requests int) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `{"smg_recording":1,"began":"2026-08-01T12:00:00Z","leg":%q,"policy":"random","replica":"1"}`+"\n", leg)
	for n := 1; n <= 2; n++ {
		fmt.Fprintf(&b, `{"t":0,"worker":{"n":%d,"id":"w%d","models":["m"],"status":"ready"}}`+"\n", n, n)
	}
	for i := range requests {
		at := time.Duration(i) * time.Second
		fmt.Fprintf(&b, `{"t":%d,"select":{"lease":"1/%d","model":"m","chars":64,"seen":64,"text":"AAAAAAAAAAA=","worker":%d}}`+"\n", at.Microseconds(), i+1, i%2+1)
		fmt.Fprintf(&b, `{"t":%d,"end":{"lease":"1/%d","outcome":"success"}}`+"\n", (at + time.Second/2).Microseconds(), i+1)
	}
	fmt.Fprintf(&b, `{"t":99000000,"close":{"selects":%d,"lost":0}}`+"\n", requests)
	path := filepath.Join(t.TempDir(), leg+".jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRows(t *testing.T) {
	always := []string{"greedy, clairvoyant", "as recorded"}
	regular := []string{"random", "round_robin", "cache_aware", "power_of_two", "least_load", "prefix_hash", "consistent_hashing", "manual"}
	for _, tt := range []struct {
		name string
		args []string
		want []string // names of the rows
		says []string // on either side
	}{
		{"all", []string{written(t, "regular", 5)}, append(always[:2:2], regular...), []string{": 5 requests in 4s", "2 workers", "1 times the rate", "recorded under random"}},
		{"all of a prefill leg", []string{written(t, "prefill", 3)}, append(append(always[:2:2], regular...), "bucket"), []string{"prefill leg", ": 3 requests"}},
		{"some, which may be few", []string{"--policy", "least_load,random", "--rate", "2", written(t, "regular", 5)}, append(always[:2:2], "least_load", "random"), []string{"5 requests in 2s"}},
		{"two files", []string{"--policy=random", written(t, "regular", 5), written(t, "regular", 5)}, append(always[:2:2], "random"), []string{": 5 requests"}},
		{"other workers", []string{"--policy", "bucket", "--workers", "1", written(t, "regular", 2)}, []string{"greedy, clairvoyant", "bucket"}, []string{"no line tells how it was recorded", "at random", "1 workers"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, notes strings.Builder
			if code := Main(parsed(t, tt.args...), &out, &notes); code != 0 {
				t.Fatalf("exit %d:\n%s", code, notes.String())
			}
			var got []string
			_, table, _ := strings.Cut(out.String(), "failed\n")
			for line := range strings.Lines(table) {
				name, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
				got = append(got, name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			for _, says := range tt.says {
				if !strings.Contains(out.String()+notes.String(), says) {
					t.Errorf("no %q in\n%s%s", says, out.String(), notes.String())
				}
			}
		})
	}
}

// TestSettingsReachThePolicy: one policy under two settings gives two tables.
func TestSettingsReachThePolicy(t *testing.T) {
	cmd := parsed(t, "--policy", "power_of_two,least_load", "--power-of-two-load-metric", "requests", "--sticky-sessions", "--least-load-max-waiting-requests", "3", "x")
	cfg := cmd.Launch.PolicyConfig(policy.LeastLoad)
	if cfg.PowerOfTwo.Metric != policy.Requests || !cfg.Sticky.On || cfg.LeastLoad.MaxWaiting != 3 {
		t.Errorf("settings %+v", cfg)
	}
	if diff := cmp.Diff([]string{policy.PowerOfTwo, policy.LeastLoad}, cmd.Replay.Policies); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}
