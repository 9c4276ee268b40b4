package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// asks runs a command that asks a gateway, wants its exit code and returns what it
// printed.
func asks(t *testing.T, g *gateway, code int, args ...string) (out, report string) {
	t.Helper()
	p := start(t, "smg", append(args, "--gateway", g.url)...)
	p.ends(code)
	return p.out.String(), p.stderr()
}

// TestAdmin has smg workers and smg status ask a gateway.
func TestAdmin(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"workers": func(t *testing.T, topology ...string) {
			g := inFront(t, append(topology, "--policy", "round_robin")...)
			engines := urls(simtest.StartN(t, 2, simtest.Config()))
			const head = "URL\tLEG\tMODEL\tSTATUS\tIN FLIGHT\tID\n"
			if out, _ := asks(t, g, 0, "workers"); out != head {
				t.Errorf("without workers: %q", out)
			}
			for _, e := range engines {
				out, _ := asks(t, g, 0, "workers", "add", e, "--wait-secs", "60", "--label", "zone=a")
				w, _ := g.worker(e)
				if want := fmt.Sprintf("ready   %s   %s\n", e, w.ID); out != want || !w.Healthy || w.Labels["zone"] != "a" {
					t.Errorf("it said %q, want %q; the worker is %+v", out, want, w)
				}
			}
			first, _ := g.worker(engines[0])
			out, _ := asks(t, g, 0, "workers", "list", "--model", "sim")
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if want := fmt.Sprintf("%s\tregular\tsim\tready\t0\t%s", engines[0], first.ID); len(lines) != 3 || lines[1] != want {
				t.Errorf("the list is %q, want its second line %q", out, want)
			}
			if _, report := asks(t, g, 1, "workers", "add", engines[0]); !strings.Contains(report, "is registered already") || !strings.Contains(report, "409 WORKER_ALREADY_EXISTS") {
				t.Errorf("adding it again: %s", report)
			}
			if _, report := asks(t, g, 1, "workers", "add", "http://"); !strings.Contains(report, "400 BAD_REQUEST") {
				t.Errorf("adding nothing: %s", report)
			}
			if _, report := asks(t, g, 1, "workers", "add", "http://w", "--leg", "prefill"); !strings.Contains(report, "which has regular workers") {
				t.Errorf("adding one of another fleet: %s", report)
			}
			asks(t, g, 0, "workers", "rm", engines[0], func() string { w, _ := g.worker(engines[1]); return w.ID }())
			await(t, "both to be gone", func() bool {
				out, _ := asks(t, g, 0, "workers")
				return out == head
			})
			if _, report := asks(t, g, 1, "workers", "rm", engines[0]); !strings.Contains(report, "404 WORKER_NOT_FOUND") {
				t.Errorf("removing it again: %s", report)
			}
			if _, report := asks(t, &gateway{url: strings.TrimSuffix(g.metrics, "/metrics")}, 1, "status"); !strings.Contains(report, "not that of metrics") {
				t.Errorf("asking the page of metrics: %s", report)
			}
			g.stop(0)
		},
		"status": func(t *testing.T, topology ...string) {
			control, stall := simtest.StartN(t, 1, simtest.Config())[0], 3
			if err := control.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Contains: `"stream":true`}, Stream: &simctl.StreamFault{StallAfter: &stall}}); err != nil {
				t.Fatal(err)
			}
			engine := control.URL
			g := launched(t, []string{engine}, append(topology, "--policy", "round_robin", "--shutdown-grace-period-secs", "0")...)
			type selector struct{ Local bool }
			type leg struct {
				Leg, Policy string
				Degraded    bool
				Leases      int
				Healthy     int `json:"healthy_workers"`
				Selectors   []selector
			}
			var got struct {
				Status    string
				Connected bool `json:"bus_connected"`
				Legs      []leg
				Workers   []shown
			}
			look := func() {
				t.Helper()
				out, _ := asks(t, g, 0, "status", "--json")
				got.Legs = nil
				if err := json.Unmarshal([]byte(out), &got); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			s := openStream(t, g.url, 50) // it never ends
			await(t, "the policy to be announced", func() bool { look(); return len(got.Legs) == 1 && got.Legs[0].Policy != "" })
			want := []leg{{Leg: "regular", Policy: "round_robin", Leases: 1, Healthy: 1, Selectors: []selector{{topology[1] == "single"}}}}
			if diff := cmp.Diff(want, got.Legs); diff != "" || got.Status != "ready" || !got.Connected || len(got.Workers) != 1 || got.Workers[0].URL != engine {
				t.Errorf("%+v; legs (-want +got):\n%s", got, diff)
			}
			out, _ := asks(t, g, 0, "status")
			for _, line := range []string{g.url + "\tready\t1 of 1\tconnected\n", "regular\tround_robin\tsglang\t1\t1 of 1\t1\t0\tby selectors\n", engine + "\tregular\tsim\tready\t1\n"} {
				if !strings.Contains(out, line) {
					t.Errorf("it does not say %q:\n%s", line, out)
				}
			}
			if err := s.resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if topology[1] == "split" {
				g.kill("selector regular", syscall.SIGSTOP)
				await(t, "a selection without a selector", func() bool {
					askChat(t, g.url)
					out, _ := asks(t, g, 0, "status")
					return strings.Contains(out, "DEGRADED")
				})
				g.kill("selector regular", syscall.SIGKILL)
			}
			g.stop(0)
		},
	})
}
