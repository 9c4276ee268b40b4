package flags

import (
	"slices"
	"strings"
	"testing"
)

// laterLines are the lines of TestCLI about flags whose features are not built yet.
func laterLines() []lineCase {
	const (
		launch = "launch --worker-urls http://w1:8000 "
		serve  = "serve --backend sim "
		answer = "is not supported yet"
	)
	return []lineCase{
		{"24_history_backend", launch + "--history-backend postgres", 2, []string{"--history-backend " + answer, "--history-backend postgres", "or write --history-backend memory"}},
		{"24_history_backend_by_default", launch + "--history-backend memory", 0, nil},
		{"24_no_history", launch + "--history-backend=none", 0, nil},
		{"24_prefixed_in_serve", serve + "--router-history-backend redis", 2, []string{"--router-history-backend " + answer}},
		{"24_prefixed_in_serve_by_default", serve + "--router-history-backend memory --router-redis-pool-max=16", 0, nil},
		{"24_mesh_selector_in_serve", serve + "--router-router-selector a=b", 2, []string{"--router-router-selector " + answer}},
		{"24_other_spellings", launch + "--oracle_username x", 2, []string{"--oracle-user " + answer, "--oracle_username x"}},
		{"24_switch", launch + "--service-discovery", 2, []string{"--service-discovery " + answer, "leave it out"}},
		{"24_switch_that_is_off", launch + "--service-discovery=false --enable-mesh=false", 0, nil},
		{"24_list", launch + "--selector app=x tier=y --port 1", 2, []string{"--selector " + answer, "--selector app=x tier=y"}},
		{"24_empty_list", launch + "--selector --log-json", 0, nil},
		{"24_no_value", launch + "--redis-url", 2, []string{"a value is missing", "--redis-url URL"}},
		{"24_negative_value", launch + "--redis-retention-days -1", 2, []string{"--redis-retention-days " + answer}},
		{"24_password", launch + "--oracle-password SECRET", 2, []string{"--oracle-password " + answer}},
		{"24_url_with_a_password", launch + "--postgres-db-url=postgres://u:SECRET@h/d", 2, []string{"--postgres-db-url " + answer}},
		{"24_keys", launch + "--control-plane-api-keys a:b:admin:SECRET c:d:user:SECRET", 2, []string{"--control-plane-api-keys " + answer}},
		{"24_key_of_a_tenant", launch + "--tenant-api-key t=SECRET", 2, []string{"--tenant-api-key " + answer}},
		{"24_ingress", "ingress --nats-url n --enable-mesh", 2, []string{"--enable-mesh " + answer}},
		{"24_selector", "selector --leg decode --nats-url n --model-id-from namespace", 2, []string{"--model-id-from " + answer}},
		{"24_check", "check --jwt-issuer https://x", 2, []string{"--jwt-issuer " + answer}},
		{"24_typo", launch + "--histroy-backend memory", 2, []string{"unknown flag", "did you mean --history-backend?"}},
		{"24_replay_has_none", "replay --history-backend memory x", 2, []string{"unknown flag", "smg replay --help=all"}},
		{"24_the_engines_own", serve + "--tool-call-parser hermes --reasoning-parser=x", 0, nil},
	}
}

func testLaterVariables(t *testing.T) {
	vars := map[string]string{"REDIS_URL": "redis://somebody's", "ATP_USER": "x", "JWT_ISSUER": "y", "SMG_FLAG_HISTORY_BACKEND": "memory"}
	must(t, vars, "launch")
	for name, value := range map[string]string{"SMG_FLAG_HISTORY_BACKEND": "redis", "SMG_FLAG_ENABLE_MESH": "true", "SMG_FLAG_REDIS_URL": "redis://u:SECRET@h"} {
		for _, args := range [][]string{{"launch"}, {"serve", "--backend", "sim"}} {
			_, code, text := run(map[string]string{name: value}, args...)
			if code != 2 || !strings.Contains(text, "is not supported yet") || !strings.Contains(text, name) || strings.Contains(text, "SECRET") {
				t.Errorf("%s=%s smg %s: exit %d\n%s", name, value, args[0], code, text)
			}
		}
	}
}

// TestLater goes through all flags that are not built yet: each says so, and each takes
// its default value.
func TestLater(t *testing.T) {
	for _, d := range laterTable() {
		for _, command := range [][]string{{"launch"}, {"serve", "--backend", "sim"}} {
			name := "--" + d.Name
			if command[0] == nameServe {
				name = "--router-" + d.Name
				if d.In&InRouter == 0 {
					continue
				}
			}
			value := d.Default
			if d.Kind == Bool {
				value = "false"
			}
			if _, code, text := run(nil, append(slices.Clone(command), name+"="+value)...); code != 0 {
				t.Errorf("%s=%s, which holds: exit %d\n%s", name, value, code, text)
			}
			args := []string{name}
			if d.Kind != Bool {
				args = append(args, "another")
			}
			_, code, text := run(nil, append(slices.Clone(command), args...)...)
			if code != 2 || !strings.HasPrefix(text, "error: "+name+" is not supported yet\n") || d.Secret && strings.Contains(text, "another") {
				t.Errorf("%q: exit %d\n%s", args, code, text)
			}
		}
	}
}

// TestChoices holds what completion and help offer to what is accepted.
func TestChoices(t *testing.T) {
	got := map[string][]string{}
	for _, d := range serveTable() {
		if d.Name == "backend" {
			got["serve's backend"] = d.Choices()
		}
	}
	for _, d := range Table() {
		choices := d.Choices()
		for _, c := range choices {
			if err := d.set(&Serve{}, c); err != nil {
				t.Errorf("--%s %s is offered: %v", d.Name, c, err)
			}
		}
		got[d.Name] = choices
	}
	for name, want := range map[string]string{
		"log-level": "debug info warn error", "topology": "single split", "encode-policy": "random round_robin consistent_hashing",
		"leg": "regular encode prefill decode", "engine-log": "prefix raw file", "degraded-selection": "local fail", "port": "", "worker-urls": "",
		"assignment-mode": "random min_load min_group delegate", "serve's backend": "sglang vllm llamacpp custom sim",
	} {
		if c := strings.Join(got[name], " "); c != want {
			t.Errorf("--%s offers %q, want %q", name, c, want)
		}
	}
	if got["policy"] == nil || slices.Contains(got["decode-policy"], "passthrough") {
		t.Errorf("policies %q, of decode %q", got["policy"], got["decode-policy"])
	}
}
