package bootstrap

import (
	"log/slog"
	"strings"
	"testing"

	"smg/worker"
)

func TestMooncakeIsFound(t *testing.T) {
	const here, other = "http://h:8998", "http://h:9100"
	type found struct {
		connector, engine string
		port              uint16
		warns             string // a part of it
	}
	for _, c := range []struct {
		name    string
		spec    worker.Spec
		engines map[string]map[int]string
		want    found
	}{
		{"a port at which it answers", worker.Spec{BootstrapPort: 9100}, map[string]map[int]string{other: {0: "e"}}, found{worker.MooncakeFound, "e", 9100, ""}},
		{"a port of something else", worker.Spec{BootstrapPort: 9100}, nil, found{"", "", 9100, ""}},
		{"no port and no name", worker.Spec{}, map[string]map[int]string{here: {0: "e"}}, found{"", "", 0, ""}},
		{"F25 no port", worker.Spec{KVConnector: worker.MooncakeConnector}, map[string]map[int]string{here: {0: "e"}}, found{worker.MooncakeConnector, "e", 8998, "8998 is taken"}},
		{"another connector's port", worker.Spec{KVConnector: worker.NixlConnector, BootstrapPort: 9100}, map[string]map[int]string{other: {0: "e"}}, found{worker.NixlConnector, "", 9100, ""}},
		{"nobody answers", worker.Spec{KVConnector: worker.MooncakeConnector, BootstrapPort: 9100}, nil, found{worker.MooncakeConnector, "", 9100, "not known: nothing listens"}},
		{"nobody answers, but somebody has said", worker.Spec{KVConnector: worker.MooncakeConnector, BootstrapPort: 9100, KVEngineID: "said"}, nil, found{worker.MooncakeConnector, "said", 9100, ""}},
		{"what was said holds", worker.Spec{BootstrapPort: 9100, KVEngineID: "said"}, map[string]map[int]string{other: {0: "e"}}, found{worker.MooncakeFound, "said", 9100, ""}},
		{"a rank", worker.Spec{BootstrapPort: 9100, DPSize: 2, DPRank: 1}, map[string]map[int]string{other: {0: "e_dp0", 1: "e_dp1"}}, found{worker.MooncakeFound, "e", 9100, ""}},
		{"several ranks, none of them", worker.Spec{BootstrapPort: 9100}, map[string]map[int]string{other: {0: "e_dp0", 1: "e_dp1"}}, found{worker.MooncakeFound, "", 9100, "which of its ranks"}},
		{"7 a size that is no number", worker.Spec{BootstrapPort: 9100, Labels: map[string]string{"dp_size": "two"}}, map[string]map[int]string{other: {0: "e"}}, found{worker.MooncakeFound, "", 9100, "which of its ranks"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := NewRegistrar(DefaultConfig(), &prober{engines: c.engines}, &memory{}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			s := c.spec
			s.Leg, s.Runtime, s.BootstrapHost = worker.Prefill, worker.VLLM, "h"
			warning := r.mooncake(t.Context(), &s)
			if got := (found{s.KVConnector, s.KVEngineID, s.BootstrapPort, c.want.warns}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if (warning == "") != (c.want.warns == "") || !strings.Contains(warning, c.want.warns) {
				t.Errorf("warns %q, want %q", warning, c.want.warns)
			}
		})
	}
	for _, leg := range []worker.Leg{worker.Decode, worker.Encode, worker.Regular} {
		s := worker.Spec{Leg: leg, Runtime: worker.VLLM, KVConnector: worker.MooncakeConnector}
		r, err := NewRegistrar(DefaultConfig(), &prober{}, &memory{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if warning := r.mooncake(t.Context(), &s); warning != "" || s.BootstrapPort != 0 {
			t.Errorf("%s: %q, port %d", leg, warning, s.BootstrapPort)
		}
	}
}
