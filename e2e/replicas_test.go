package e2e

import (
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// TestAReplicaIsFrozenAndAnotherKilled has two selector replicas of a leg, of which one
// always goes on. No request fails, none is chosen without a selector, and the one that
// is left counts what is in flight.
func TestAReplicaIsFrozenAndAnotherKilled(t *testing.T) {
	parallel(t)
	n := startNATS(t)
	engines := simtest.StartN(t, 3, simtest.Config())
	stall := 3
	for _, e := range engines {
		if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Contains: `"stream":true`}, Stream: &simctl.StreamFault{StallAfter: &stall}}); err != nil {
			t.Fatal(err)
		}
	}
	var replicas []*process
	var pages []string
	for range 2 {
		p, metrics := selectorOn(t, n.url(), "regular")
		replicas, pages = append(replicas, p), append(pages, metrics)
	}
	// A wait that long ends in an answer of the other one, on a slow machine too.
	g := ingressOn(t, n.url(), append([]string{"--plan-timeout-ms", "20000", "--worker-urls"}, urls(engines)...)...)
	g.says(`^ready +3 of 3 workers`)
	count := func(want float64, pages ...string) {
		t.Helper()
		from := time.Now()
		await(t, "the counts to be right", func() bool {
			for _, page := range pages {
				if total(t, page, "smg_selector_requests_active") != want {
					return false
				}
			}
			return true
		})
		t.Logf("counts are %v after %s", want, time.Since(from))
	}
	await(t, "both replicas to answer", func() bool {
		return total(t, pages[0], "smg_worker_health") == 3 && total(t, pages[1], "smg_worker_health") == 3
	})
	l := startLoad(t, g.url, 2, patience)
	l.more(t, 20)
	l.healthy(t)
	before := l.degraded.Load()
	for _, p := range replicas { // one of them is asked first
		p.signal(syscall.SIGSTOP)
		l.more(t, 20)
		p.signal(syscall.SIGCONT)
		l.more(t, 20)
	}
	open := []*events{openStream(t, g.url, 50), openStream(t, g.url, 50)} // they never end
	replicas[0].signal(syscall.SIGKILL)
	replicas[0].ends(137)
	l.more(t, 40)
	open = append(open, openStream(t, g.url, 50))
	l.stop()
	if d := l.degraded.Load() - before; d != 0 {
		t.Errorf("%d of %d answers were chosen without a selector", d, l.answered.Load())
	}
	count(float64(len(open)), pages[1])
	// A replica that comes now knows them, and who is well.
	_, late := selectorOn(t, n.url(), "regular")
	await(t, "the new replica to know the workers", func() bool { return total(t, late, "smg_worker_health") == 3 })
	count(float64(len(open)), pages[1], late)
	for _, s := range open {
		if err := s.resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	count(0, pages[1], late)
}
