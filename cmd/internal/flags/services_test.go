package flags

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// TestServices holds the command lines of services and topologies: exit code and
// words of the answer.
func TestServices(t *testing.T) {
	const nats = " --nats-url nats://n:4222"
	tests := []lineCase{
		{"ingress", "ingress" + nats, 0, nil},
		{"ingress_needs_nats", "ingress", 2, []string{"--nats-url is required", "SMG_NATS_URL"}},
		{"ingress_has_no_policy", "ingress --policy random" + nats, 2, []string{"unknown flag", "--policy is a flag of smg selector"}},
		{"ingress_has_no_topology", "ingress --topology split" + nats, 2, []string{"--topology is a flag of smg launch"}},
		{"ingress_checks_workers", "ingress --pd-disaggregation --prefill p1:8000" + nats, 1, []string{"write http://p1:8000"}},
		{"selector", "selector --leg prefill" + nats, 0, nil},
		{"selector_needs_leg", "selector" + nats, 2, []string{"--leg is required", "regular, encode, prefill or decode"}},
		{"selector_needs_nats", "selector --leg prefill", 2, []string{"--nats-url is required"}},
		{"selector_of_no_leg", "selector --leg middle" + nats, 2, []string{`"middle" is not a leg`, "--leg middle"}},
		{"selector_has_no_port", "selector --port 1" + nats, 2, []string{"--port is a flag of smg ingress"}},
		{"selector_prefill_policy", "selector --leg prefill --prefill-policy random" + nats, 2, []string{"unknown flag"}},
		{"selector_encode_policy", "selector --leg encode --policy passthrough" + nats, 1, []string{"policy passthrough is not for the encode leg"}},
		{"selector_decode_bucket", "selector --leg decode --policy bucket" + nats, 1, []string{"bucket serves the prefill leg only"}},
		{"selector_metrics_where_an_api_would_be", "selector --leg decode --prometheus-port 30000" + nats, 0, nil},
		{"typo", "ingres", 2, []string{"did you mean ingress?"}},
		{"flags_first", "--log-json selector", 2, []string{"put flags after the command"}},
		{"topology", "launch --topology split", 0, nil},
		{"topology_unknown", "launch --topology both", 2, []string{`"both" is not a known topology`, "single, split"}},
		{"leg_in_launch", "launch --leg decode", 2, []string{"--leg is a flag of smg selector"}},
		{"nats_several", "launch --nats-url nats://a:1,b:2,tls://c", 0, nil},
		{"nats_scheme", "launch --nats-url http://a:1", 2, []string{"not the address of a NATS server", "nats://HOST:4222"}},
		{"nats_empty_item", "launch --nats-url nats://a:1,", 2, []string{"not the address of a NATS server"}},
		{"nats_listen", "launch --nats-listen u:p@127.0.0.1:4222", 0, nil},
		{"nats_listen_alone", "launch --nats-listen 127.0.0.1:4222", 1, []string{"services that join need credentials", "write USER:PASSWORD@127.0.0.1:4222"}},
		{"nats_listen_for_children", "launch --topology split --nats-listen 127.0.0.1:4222", 0, nil},
		{"nats_listen_half", "launch --nats-listen u@127.0.0.1:4222", 2, []string{"write USER:PASSWORD@HOST:PORT"}},
		{"nats_listen_no_port", "launch --nats-listen u:secret", 2, []string{"no port", "write USER:PASSWORD@HOST:PORT"}},
		{"nats_listen_form", "launch --nats-listen 4222", 1, []string{"--nats-listen 4222", "secret@127.0.0.1:4222"}},
		{"V42_nats_listen", "launch --nats-listen u:p@127.0.0.1:30000", 1, []string{"--nats-listen 127.0.0.1:30000 and --port 30000", "two listeners cannot share a port"}},
		{"V42_nats_listen_serve", "serve --backend sim --router-nats-listen u:p@127.0.0.1:29000", 1, []string{"--router-nats-listen", "--router-prometheus-port 29000"}},
		{"nats_listen_and_url", "launch --nats-listen 127.0.0.1:4222" + nats, 1, []string{"no built-in NATS server with --nats-url"}},
		{"state_dir", "launch --state-dir /var/lib/smg", 0, nil},
		{"state_dir_and_url", "launch --state-dir /var/lib/smg" + nats, 1, []string{"--state-dir /var/lib/smg", "no built-in NATS server with --nats-url"}},
		{"nats_creds_alone", "launch --nats-creds f", 1, []string{"--nats-creds f", "add --nats-url"}},
		{"nats_replicas_alone", "launch --nats-replicas 3", 1, []string{"--nats-replicas 3", "add --nats-url"}},
		{"nats_ca_missing", "launch --nats-tls-ca /nowhere/ca.pem" + nats, 1, []string{"--nats-tls-ca /nowhere/ca.pem", "no such file"}},
		{"plan_timeout_zero", "launch --plan-timeout-ms 0", 1, []string{"--plan-timeout-ms 0", "must be more than 0"}},
		{"degraded", "launch --degraded-selection fail", 0, nil},
		{"degraded_unknown", "launch --degraded-selection never", 2, []string{"local, fail"}},
		{"serve_topology", "serve --backend sim --router-topology split", 0, nil},
		{"help_ingress", "ingress --help=all", 0, []string{"Usage: smg ingress", "--nats-url"}},
		{"help_selector", "help selector", 0, []string{"Usage: smg selector", "--leg"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, code, text := run(nil, strings.Fields(tt.args)...)
			if code != tt.code {
				t.Errorf("exit %d, want %d\n%s", code, tt.code, text)
			}
			for _, w := range tt.want {
				if !strings.Contains(text, w) {
					t.Errorf("answer lacks %q:\n%s", w, text)
				}
			}
		})
	}
}

func TestNATSPasswordsAreNotRepeated(t *testing.T) {
	for _, args := range [][]string{
		{"launch", "--nats-url", "nats://u:secret@n:4222", "--nats-url", "nats://u:secret@n:4222"},
		{"launch", "--nats-url", "ftp://u:secret@n"},
		{"launch", "--nats-url", "nats://u:secret@n", "--nats-listen", "1:1"},
		{"launch", "--nats-listen", "u:secret"},
		{"launch", "--nats-listen", "secret"},
	} {
		if _, code, text := run(nil, args...); code == 0 || strings.Contains(text, "secret") {
			t.Errorf("exit %d: %s", code, text)
		}
	}
	if _, code, text := run(map[string]string{"SMG_NATS_URL": "ftp://u:secret@n"}, "launch"); code != 2 || !strings.Contains(text, "SMG_NATS_URL") || strings.Contains(text, "secret") {
		t.Errorf("exit %d: %s", code, text)
	}
	if got := must(t, nil, "launch", "--nats-url", "nats://u:secret@n:4222,b").Launch.Bus.Servers(); got != "nats://***@n:4222,nats://b" {
		t.Errorf("the servers are shown as %s", got)
	}
}

func TestServiceConfigs(t *testing.T) {
	creds := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(creds, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := must(t, map[string]string{"SMG_NATS_URL": "n:4222"}, "selector", "--leg", "encode", "--nats-creds", creds)
	l := cmd.Launch
	if cmd.Verb != RunSelector || l.Leg != worker.Encode || l.Policy != "consistent_hashing" || l.Bus.Creds != creds || l.Bus.URLs[0] != "nats://n:4222" || len(cmd.Notices) != 0 {
		t.Errorf("got %v %+v, notices %q", cmd.Verb, l, cmd.Notices)
	}
	cmd, err := Parse(Input{Command: "ingress", Args: []string{"--nats-url", "n"}, Env: env(nil)})
	if err != nil || cmd.Verb != RunIngress || len(cmd.Notices) != 0 {
		t.Errorf("got %+v (%v)", cmd, err)
	}
}

func TestChildrenGetWhatTheParentWasGiven(t *testing.T) {
	vars := map[string]string{"SMG_FLAG_HEALTH_CHECK_INTERVAL_SECS": "7", "SMG_NATS_URL": "nats://u:secret@n"}
	tests := []struct {
		name     string
		args     string
		ingress  string
		selector string
	}{
		{
			name: "launch",
			args: "launch --topology split --port 9000 --pd-disaggregation --prefill http://p 8998 --decode http://d --retry-max-retries 2 " +
				"--routing-key-headers --cb-failure-threshold 3 --log-json --prometheus-port 0",
			ingress: "--host=0.0.0.0 --port=9000 --prometheus-port=0 --pd-disaggregation --retry-max-retries=2 --log-json=true " +
				"--health-check-interval-secs=7 --routing-key-headers",
			selector: "--leg=prefill --policy=random --cb-failure-threshold=3 --log-json=true --health-check-interval-secs=7",
		},
		{
			name: "serve",
			args: "serve --backend sim --router-topology split --router-policy random --router-max-json-depth 9 --router-cluster c --host 127.0.0.2",
			ingress: "--host=127.0.0.2 --port=8080 --prometheus-port=0 --disable-retries --max-json-depth=9 --cluster=c " +
				"--health-check-interval-secs=7",
			selector: "--leg=prefill --policy=random --disable-circuit-breaker --cluster=c --health-check-interval-secs=7",
		},
		{
			name:     "the API at the default port of metrics",
			args:     "launch --topology split --port 29000 --prometheus-port 0",
			ingress:  "--host=0.0.0.0 --port=29000 --prometheus-port=0 --health-check-interval-secs=7",
			selector: "--leg=prefill --policy=random --health-check-interval-secs=7",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := must(t, vars, strings.Fields(tt.args)...)
			ingress, selector := cmd.IngressArgs(), cmd.SelectorArgs(worker.Prefill, "random")
			for _, got := range []struct {
				args []string
				want string
			}{{ingress, tt.ingress}, {selector, tt.selector}} {
				if diff := cmp.Diff(strings.Fields(got.want), got.args); diff != "" {
					t.Error(diff)
				}
			}
			bus := map[string]string{"SMG_NATS_URL": "n"}
			must(t, bus, slices.Concat([]string{"ingress"}, ingress)...)
			must(t, bus, slices.Concat([]string{"selector"}, selector)...)
		})
	}
}
