package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// natsServer is a NATS server that can be stopped and started again in its place:
// that of a gateway which has nothing else to do with those who use it.
type natsServer struct {
	t    *testing.T
	at   string
	args []string
	host *process
}

// natsPassword is what those need who connect.
const natsPassword = "not-to-be-seen"

// startNATS starts a server on a free port.
func startNATS(t *testing.T) *natsServer {
	t.Helper()
	n := newNATS(t)
	n.start()
	return n
}

// newNATS is a server that has never run.
func newNATS(t *testing.T) *natsServer {
	t.Helper()
	n := &natsServer{t: t, at: fmt.Sprintf("127.0.0.1:%d", port(t))}
	n.args = append([]string{
		"launch", "--cluster", "elsewhere", "--host", "127.0.0.1", "--shutdown-grace-period-secs", "0", "--nats-listen", "smg:" + natsPassword + "@" + n.at,
	}, gatewayArgs(t, "")...)
	return n
}

func (n *natsServer) url() string { return "nats://smg:" + natsPassword + "@" + n.at }

// start returns once the server listens.
func (n *natsServer) start() {
	n.t.Helper()
	n.host = start(n.t, "smg", n.args...)
	await(n.t, "the NATS server", func() bool {
		c, err := net.Dial("tcp", n.at)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

func (n *natsServer) stop() {
	n.t.Helper()
	n.host.signal(syscall.SIGKILL)
	n.host.ends(137)
}

// ingressOn starts an ingress alone.
func ingressOn(t *testing.T, nats string, args ...string) *gateway {
	t.Helper()
	all := append([]string{"--host", "127.0.0.1", "--shutdown-grace-period-secs", "0"}, gatewayArgs(t, "")...)
	g := &gateway{process: startWith(t, []string{"SMG_NATS_URL=" + nats}, "smg-ingress", append(all, args...)...)}
	m := g.says(`^api +(http://\S+) +metrics +(http://\S+)`)
	g.url, g.metrics = m[1], m[2]
	return g
}

// selectorOn starts a selector alone and returns its page of metrics.
func selectorOn(t *testing.T, nats, leg string, args ...string) (p *process, metrics string) {
	t.Helper()
	all := append([]string{"selector", "--leg", leg, "--prometheus-host", "127.0.0.1", "--prometheus-port", "0"}, args...)
	p = startWith(t, []string{"SMG_NATS_URL=" + nats}, "smg", all...)
	return p, p.says(`^metrics +(http://\S+)`)[1]
}

// TestServicesByHand starts each service by itself, one of them twice.
func TestServicesByHand(t *testing.T) {
	parallel(t)
	n := startNATS(t)
	engines := urls(simtest.StartN(t, 3, simtest.Config()))
	first, _ := selectorOn(t, n.url(), "regular", "--policy", "round_robin")
	second, _ := selectorOn(t, n.url(), "regular", "--policy", "round_robin")
	g := ingressOn(t, n.url(), append([]string{"--worker-urls"}, engines...)...)
	g.says(`^ready +3 of 3 workers`)
	used := map[string]int{}
	for range 12 {
		a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat)
		if a.status != http.StatusOK || a.header.Get("X-Smg-Degraded") != "" {
			t.Fatalf("status %d, header %v: %s", a.status, a.header, a.body)
		}
		used[a.header.Get("X-Smg-Routed-Worker-Id")]++
	}
	for _, e := range engines {
		if used[e] != 4 {
			t.Errorf("one replica answers for a pool, so the turns are even; they are %v", used)
			break
		}
	}
	l := startLoad(t, g.url, 4, patience)
	l.more(t, 20)
	first.signal(syscall.SIGKILL)
	first.ends(137)
	l.healthy(t)
	l.stop()
	for _, p := range []*process{second, g.process} {
		p.signal(syscall.SIGTERM)
		p.ends(0)
		if strings.Contains(p.stderr(), natsPassword) {
			t.Error("a line has the password")
		}
	}
}

// natsGone stops the NATS server for ten seconds under load.
func natsGone(t *testing.T) {
	n := startNATS(t)
	engines := simtest.StartN(t, 2, simtest.Config())
	stall := 3
	for _, e := range engines {
		if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Contains: `"stream":true`}, Stream: &simctl.StreamFault{StallAfter: &stall}}); err != nil {
			t.Fatal(err)
		}
	}
	_, metrics := selectorOn(t, n.url(), "regular")
	g := ingressOn(t, n.url(), append([]string{"--worker-urls"}, urls(engines)...)...)
	g.says(`^ready +2 of 2 workers`)
	l := startLoad(t, g.url, 4, patience)
	l.more(t, 20)
	n.stop()
	await(t, "an answer chosen without NATS", func() bool { return l.degraded.Load() > 0 })
	s := openStream(t, g.url, 50) // begun while nobody else hears of it; it never ends
	gone := time.Now()
	time.Sleep(10 * time.Second) // how long it is gone
	n.start()
	l.healthy(t)
	l.stop()
	await(t, "the selector to know the one call in flight", func() bool { return total(t, metrics, "smg_selector_requests_active") == 1 })
	t.Logf("%d answers, %d of them degraded; counts are right %s after NATS was started again",
		l.answered.Load(), l.degraded.Load(), time.Since(gone)-10*time.Second)
	if err := s.resp.Body.Close(); err != nil {
		t.Error(err)
	}
	await(t, "the counts to fall to 0", func() bool { return total(t, metrics, "smg_selector_requests_active") == 0 })
	if n := gauges(t, g.metrics, "smg_selection_degraded_total")[`{leg="regular",reason="disconnected"}`]; n == 0 {
		t.Error("no selection was counted as degraded")
	}
}

// TestStartWithoutNATS starts services before the server that they meet on.
func TestStartWithoutNATS(t *testing.T) {
	n := startNATS(t)
	engine := simtest.StartN(t, 1, simtest.Config())[0].URL
	for name, begin := range map[string]func(args ...string) *gateway{
		"ingress": func(args ...string) *gateway { return ingressOn(t, n.url(), args...) },
		"launch": func(args ...string) *gateway {
			all := append([]string{"launch", "--host", "127.0.0.1", "--shutdown-grace-period-secs", "0", "--nats-url", n.url()}, gatewayArgs(t, "")...)
			g := &gateway{process: start(t, "smg", append(all, args...)...)}
			g.url = g.says(`^api +(http://\S+)`)[1]
			return g
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.stop()
			empty := begin()
			empty.says(`level=WARN msg="waiting for NATS" server=nats://\*\*\*@` + regexp.QuoteMeta(n.at) + ` waited=\S+ hint=`)
			if s := status(t, empty.url+"/readiness"); s != http.StatusServiceUnavailable {
				t.Errorf("readiness %d without workers", s)
			}
			g := begin("--worker-urls", engine)
			g.says("^ready +1 of 1 worker")
			a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat)
			if a.status != http.StatusOK || a.header.Get("X-Smg-Degraded") != "regular" {
				t.Errorf("status %d, degraded %q: %s", a.status, a.header.Get("X-Smg-Degraded"), a.body)
			}
			n.start()
			if name == "ingress" {
				selectorOn(t, n.url(), "regular")
			}
			empty.says(`msg="NATS is there" waited=`)
			await(t, "a selector to choose", func() bool {
				a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat)
				return a.status == http.StatusOK && a.header.Get("X-Smg-Degraded") == ""
			})
			await(t, "the other gateway to know the worker", func() bool { return status(t, empty.url+"/readiness") == http.StatusOK })
			for _, p := range []*gateway{g, empty} {
				p.signal(syscall.SIGTERM)
				p.ends(0)
			}
		})
	}
}

// TestJoinTheBuiltInServer has a second ingress join a gateway in one process.
func TestJoinTheBuiltInServer(t *testing.T) {
	parallel(t)
	at := "127.0.0.1:" + strconv.Itoa(port(t))
	engines := urls(simtest.StartN(t, 2, simtest.Config()))
	g := launched(t, engines, "--nats-listen", "u:hidden@"+at, "--shutdown-grace-period-secs", "0")
	g.says(`^bus +embedded NATS at ` + at)
	second := ingressOn(t, "nats://u:hidden@"+at)
	await(t, "the second ingress to be ready", func() bool { return status(t, second.url+"/readiness") == http.StatusOK })
	if a := do(t, http.MethodPost, second.url+"/v1/chat/completions", chat); a.status != http.StatusOK || a.header.Get("X-Smg-Degraded") != "" {
		t.Errorf("status %d, header %v: %s", a.status, a.header, a.body)
	}
	p := startWith(t, nil, "smg-selector", "--leg", "regular", "--nats-url", "nats://u:wrong@"+at, "--prometheus-port", "0", "--prometheus-host", "127.0.0.1")
	p.ends(1)
	p.says("^error: ")
	for _, p := range []*process{second.process, g.process} {
		p.signal(syscall.SIGTERM)
		p.ends(0)
		if strings.Contains(p.stderr(), "hidden") {
			t.Error("a line has the password")
		}
	}
}
