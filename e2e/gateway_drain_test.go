package e2e

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

func TestGatewayDrain(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"66_a_stream_comes_to_its_end": streamComesToItsEnd,
		"66_an_endless_stream_is_cut":  endlessStreamIsCut,
	})
}

// streamComesToItsEnd has a stream that outlives the time in which new requests are
// accepted: its engine stands still for as long.
func streamComesToItsEnd(t *testing.T, topology ...string) {
	const tokens = 100
	engines := simtest.StartN(t, 2, slow(5*time.Millisecond))
	// In turn, so that the next request goes to the engine that does not stand still.
	g := launched(t, urls(engines), append(topology, "--shutdown-grace-period-secs", "8", "--policy", "round_robin")...)
	s := openStream(t, g.url, tokens)
	busy := engines[slices.Index(urls(engines), s.resp.Header.Get("X-Smg-Routed-Worker-Id"))]
	if err := busy.SetFaults(t.Context(), simctl.Faults{Freeze: true}); err != nil {
		t.Fatal(err)
	}
	g.signal(syscall.SIGTERM)
	g.says("draining in_flight=1 settle=4s")
	if a := do(t, http.MethodGet, g.url+"/readiness", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "draining") {
		t.Errorf("readiness %d %s", a.status, a.body)
	}
	for _, probe := range []string{"/health", "/liveness"} {
		if code := status(t, g.url+probe); code != http.StatusOK {
			t.Errorf("%s %d", probe, code)
		}
	}
	if by := askChat(t, g.url); by == busy.URL {
		t.Errorf("the next request went to %s as well", by)
	}
	await(t, "new connections to be refused", func() bool { return refused(t, g.url+"/health") })
	if err := busy.SetFaults(t.Context(), simctl.Faults{}); err != nil {
		t.Fatal(err)
	}
	if pieces, whole := s.rest(); !whole || pieces < tokens/2 {
		t.Errorf("%d pieces, whole: %v", pieces, whole)
	}
	g.ends(0)
	g.silent("level=(WARN|ERROR)")
}

func endlessStreamIsCut(t *testing.T, topology ...string) {
	const grace = 2 * time.Second
	g, s := endless(t, append(topology, "--shutdown-grace-period-secs", "2")...)
	began := time.Now()
	g.signal(syscall.SIGTERM)
	if pieces, whole := s.rest(); whole || pieces > 3 {
		t.Errorf("%d pieces, whole: %v", pieces, whole)
	}
	g.ends(0)
	if took := time.Since(began); took < grace-50*time.Millisecond || took > grace+10*time.Second { // and what a busy machine adds
		t.Errorf("it took %v, want %v and what it takes to stop", took, grace)
	}
	g.says("level=WARN .*cutting.* requests=1")
	g.silent("level=ERROR")
}
