package legs

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/wire"
	"smg/worker"
)

// TestAnotherPolicyIsWarnedOf: two selectors of a leg that choose by two policies look
// like neither, and nothing else says why.
func TestAnotherPolicyIsWarnedOf(t *testing.T) {
	b := start(t, nil)
	var out bytes.Buffer
	s, err := New(b.cfg, Deps{Bus: b.bus, Prober: b.prober, Log: slog.New(slog.NewTextHandler(&out, nil)), Registerer: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	name, _ := s.Policy()
	use := func(policy string) []wire.PolicyUse { return []wire.PolicyUse{{Name: policy}} }
	for _, beat := range []wire.Beat{
		{Replica: s.cfg.Replica, Policies: use("random")}, // its own, of before
		{Replica: 501, Policies: use(name)},
		{Replica: 502},
		{Replica: 503, Policies: use("manual"), Draining: true},
	} {
		s.apart(&beat)
	}
	if out.Len() > 0 {
		t.Fatalf("a warning of nothing: %s", &out)
	}
	for range 3 {
		s.apart(&wire.Beat{Replica: 504, Policies: use("manual")})
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "other_policy=manual other_replica=504") {
		t.Errorf("got %q, want one warning that names policy and replica", got)
	}
}

// Selectors that come and go, each as another replica, are not remembered for ever.
func TestOtherPoliciesAreForgotten(t *testing.T) {
	b := start(t, nil)
	now := time.Now()
	s, err := New(b.cfg, Deps{
		Bus: b.bus, Prober: b.prober, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		for range 3 {
			now = now.Add(worker.ReplicaSilent / 3)
			s.apart(&wire.Beat{Replica: worker.ReplicaID(1000 + i), Policies: []wire.PolicyUse{{Name: "manual"}}})
		}
	}
	n := 0
	s.others.Range(func(any, any) bool { n++; return true })
	if n > 3 {
		t.Errorf("%d replicas are remembered, want those that were heard lately", n)
	}
}
