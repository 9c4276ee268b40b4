package flags

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnknownVariables: a unit file with a typing error in it must not do nothing in
// silence.
func TestUnknownVariables(t *testing.T) {
	in := Input{
		Args: []string{"launch", "--worker-urls", "http://w:1"}, Env: func(string) (string, bool) { return "", false },
		Variables: []string{"SMG_FLAG_WORKER_URL", "SMG_FLAG_POLICYY", "SMG_FLAG_NONSENSE_OF_ALL_KINDS", "SMG_FLAG_LEG", "SMG_FLAG_POLICY", "SMG_PORT", "PATH"},
	}
	cmd, err := Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"variable SMG_FLAG_NONSENSE_OF_ALL_KINDS sets nothing: there is no such flag, smg --help=all lists them",
		"variable SMG_FLAG_POLICYY sets nothing: did you mean SMG_FLAG_POLICY?",
		"variable SMG_FLAG_WORKER_URL sets nothing: did you mean SMG_FLAG_WORKER_URLS?",
	}
	if diff := cmp.Diff(want, cmd.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	in.Child = true // its parent has said so
	if cmd, err = Parse(in); err != nil || len(cmd.Warnings) != 0 {
		t.Errorf("a child warns: %v, %v", cmd.Warnings, err)
	}
}

// TestFaultsNameTheVariable: nobody looks for a flag that was not typed (rule 12).
func TestFaultsNameTheVariable(t *testing.T) {
	for _, tt := range []struct {
		name string
		vars map[string]string
		args string
		want string // the line that says where
	}{
		{"number", map[string]string{"SMG_FLAG_PORT": "0"}, "launch", "SMG_FLAG_PORT=0"},
		{"share", map[string]string{"SMG_FLAG_CACHE_THRESHOLD": "7"}, "launch", "SMG_FLAG_CACHE_THRESHOLD=7"},
		{"one of a pair", map[string]string{"SMG_FLAG_TLS_CERT_PATH": "/nope"}, "launch", "SMG_FLAG_TLS_CERT_PATH=/nope"},
		{"a pair", map[string]string{"SMG_FLAG_TLS_CERT_PATH": "/nope"}, "launch --tls-key-path /no", "SMG_FLAG_TLS_CERT_PATH=/nope and --tls-key-path /no"},
		{"list", map[string]string{"SMG_FLAG_WORKER_URLS": "http://w1 w2:8000"}, "launch", "SMG_FLAG_WORKER_URLS=w2:8000"},
		{"leg", map[string]string{"SMG_FLAG_PREFILL": "http://p 0"}, "launch --pd-disaggregation", "SMG_FLAG_PREFILL=http://p 0"},
		{"prefixed", map[string]string{"SMG_FLAG_PLAN_TIMEOUT_MS": "0"}, "serve --backend sim", "SMG_FLAG_PLAN_TIMEOUT_MS=0"},
		{"another variable", map[string]string{"SMG_CLUSTER": "a.b"}, "launch", "SMG_CLUSTER=a.b"},
		{"two ports", map[string]string{"SMG_FLAG_PORT": "29000"}, "launch", "--prometheus-port 29000 and SMG_FLAG_PORT=29000"},
		{"secret", map[string]string{"SMG_FLAG_NATS_LISTEN": "u:s3cret@nowhere:x1"}, "launch", "SMG_FLAG_NATS_LISTEN"},
		{"secret, refused later", map[string]string{"SMG_FLAG_NATS_LISTEN": "u:s3cret@:1"}, "launch", "SMG_FLAG_NATS_LISTEN"},
		{"typed", map[string]string{"SMG_FLAG_PORT": "1"}, "launch --port 0", "--port 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, code, text := run(tt.vars, strings.Fields(tt.args)...)
			if code == 0 || !strings.Contains(text, "\n  "+tt.want+"\n") || strings.Contains(text, "s3cret") {
				t.Errorf("exit %d, want %q in\n%s", code, tt.want, text)
			}
		})
	}
}

// TestVariablesOfServesOwnFlags: those flags have none, which was not told.
func TestVariablesOfServesOwnFlags(t *testing.T) {
	cmd, err := Parse(Input{
		Args: []string{"serve", "--backend", "sim", "--port", "8000"}, Env: func(string) (string, bool) { return "", false },
		Variables: []string{"SMG_FLAG_DATA_PARALLEL_SIZE", "SMG_FLAG_MODEL", "SMG_FLAG_PORT", "SMG_FLAG_POLICY"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"variable SMG_FLAG_MODEL sets nothing for serve: write --model",
		"variable SMG_FLAG_DATA_PARALLEL_SIZE sets nothing for serve: write --data-parallel-size",
	}
	if diff := cmp.Diff(want, cmd.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	cmd, err = Parse(Input{
		Args: []string{"serve", "--data-parallel-size", "2"}, Env: env(map[string]string{"SMG_DEFAULT_BACKEND": "sim"}),
		Variables: []string{"SMG_FLAG_BACKEND"},
	})
	if err != nil || len(cmd.Warnings) > 0 {
		t.Errorf("where another variable says it: %v, %v", cmd, err)
	}
}
