package gateway

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"smg/bus/natsd"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/terminal"
	"smg/launcher"
	"smg/policy"
	"smg/sim/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a gateway in front of one simulated engine, until the test ends.
func running(t *testing.T, policyName string, change ...func(*flags.Launch)) *Gateway {
	t.Helper()
	cfg := flags.DefaultLaunch()
	cfg.Host, cfg.PrometheusHost = "127.0.0.1", "127.0.0.1"
	cfg.Port, cfg.PrometheusPort = 0, 0
	cfg.ShutdownGracePeriod = 0
	cfg.Policy = policyName
	cfg.WorkerURLs = []string{simtest.Start(t, simtest.Config()).URL}
	for _, c := range change {
		c(&cfg)
	}
	server, err := natsd.Start(natsd.DefaultConfig(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	con := terminal.Console{Console: launcher.NewConsole(io.Discard, false), Log: slog.New(slog.DiscardHandler)}
	g, err := Bind(&flags.Command{Verb: flags.RunLaunch, Launch: &cfg}, con)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan Ready), make(chan error)
	go func() { done <- g.Run(ctx, server, func(r Ready) { ready <- r }) }()
	select {
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	case r := <-ready:
		if r.Workers != 1 || r.Model != "sim" {
			t.Errorf("ready with %+v", r)
		}
	}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		if c, err := net.Dial("tcp", g.api.Addr().String()); err == nil {
			c.Close()
			t.Error("it still listens")
		}
	})
	return g
}

// documented are the metrics of docs/metrics.md: the labels by name.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	// Only a parent of child processes has the others.
	page, _, _ = bytes.Cut(page, []byte("With `--topology split` alone"))
	row := regexp.MustCompile("(?m)^\\| `(smg_\\w+)` \\| \\w+ \\| ([^|]*) \\|")
	label := regexp.MustCompile("`(\\w+)`")
	all := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		labels := []string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		all[m[1]] = labels
	}
	return all
}

// exported are the metrics that a registry knows, also those that have no series
// yet, and those that appear only when they are collected.
func exported(t *testing.T, reg *prometheus.Registry) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		reg.Describe(descs)
	}()
	form := regexp.MustCompile(`fqName: "(smg_\w+)".*variableLabels: \{([^}]*)\}`)
	for d := range descs {
		if m := form.FindStringSubmatch(d.String()); m != nil {
			all[m[1]] = slices.Sorted(strings.FieldsFuncSeq(m[2], func(r rune) bool { return r == ',' }))
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "smg_") {
			continue
		}
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		all[f.GetName()] = labels
	}
	for name, labels := range all {
		if labels == nil {
			all[name] = []string{}
		}
	}
	return all
}

// TestMetricsGolden holds docs/metrics.md to what running gateways export, with the
// labels, and the other way round. With -update it writes what differs into the page.
func TestMetricsGolden(t *testing.T) {
	all := map[string][]string{}
	told := map[string]string{}
	for _, name := range []string{policy.ConsistentHashing, policy.Manual, policy.CacheAware, policy.PrefixHash} { // those with metrics of their own
		reg := running(t, name).reg
		maps.Copy(all, exported(t, reg))
		maps.Copy(told, helps(reg))
	}
	if *update {
		rewrite(t, all, told)
	}
	if diff := cmp.Diff(documented(t), all); diff != "" {
		t.Errorf("docs/metrics.md and the gateways differ (-documented +exported):\n%s", diff)
	}
}
