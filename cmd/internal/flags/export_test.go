package flags

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
)

func TestExport(t *testing.T) {
	var out bytes.Buffer
	if err := Export(&out); err != nil {
		t.Fatal(err)
	}
	var doc struct{ Flags []exported }
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Flags) != len(Table()) {
		t.Fatalf("%d flags, want %d", len(doc.Flags), len(Table()))
	}
	got := map[string]exported{}
	for _, f := range doc.Flags {
		for _, c := range f.Commands {
			got[c+" "+f.Name] = f
		}
	}

	types := map[string]string{
		"launch host": "str", "launch port": "int", "launch log-json": "bool", "launch retry-jitter-factor": "float", "launch cache-boundaries": "str",
		"launch worker-urls": "str", "launch prefill": "str", "launch max-payload-size": "int", "launch worker-overload-token-usage": "float",
		"launch least-load-default-throughput": "float", "launch worker-overload-waiting-requests": "int", "launch max-concurrent-requests": "int",
		"launch otlp-traces-endpoint": "str", "launch model-alias": "str", "launch policy": "str", "launch prometheus-duration-buckets": "float",
		"launch health-check-port": "int", "launch pprof-addr": "str", "serve worker-stop-timeout": "int",
	}
	for name, want := range types {
		if f := got[name]; f.Type != want {
			t.Errorf("%s is %q, want %q", name, f.Type, want)
		}
	}

	leg := legPolicies()
	for _, tt := range []struct {
		name    string
		choices []string
		refuses []string
	}{
		{"launch policy", policy.Names(), []string{"bucket"}},
		{"launch prefill-policy", leg, nil},
		{"launch decode-policy", leg, []string{"bucket"}},
		{"launch encode-policy", encodePolicies(), nil},
		{"launch log-level", []string{"debug", "info", "warn", "error"}, nil},
		{"launch port", nil, nil},
	} {
		if diff := cmp.Diff(tt.choices, got[tt.name].Choices); diff != "" {
			t.Errorf("choices of %s: %s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.refuses, got[tt.name].LauncherRefuses); diff != "" {
			t.Errorf("refused values of %s: %s", tt.name, diff)
		}
	}

	want := exported{
		Name: "shutdown-grace-period-secs", Kind: "scalar", Type: "int", Value: "SECS", Default: "180", Commands: []string{"launch", "serve:router", "ingress"},
		Env: []string{"SMG_FLAG_SHUTDOWN_GRACE_PERIOD_SECS"}, Group: "requests",
	}
	f := got["launch shutdown-grace-period-secs"]
	f.Help = ""
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
	if !got["serve prefill-args"].Dashed || !got["launch api-key"].Secret || !strings.HasSuffix(got["launch port"].Help, ".") {
		t.Errorf("%+v\n%+v", got["serve prefill-args"], got["launch api-key"])
	}
}
