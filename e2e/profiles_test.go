package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// TestGatewayProfiles: whoever asks for profiles gets those of every process of the
// gateway, and nobody else has any to show.
func TestGatewayProfiles(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){"profiles": func(t *testing.T, topology ...string) {
		g := oneEngine(t, append(topology, "--pprof-addr", fmt.Sprintf("127.0.0.1:%d", port(t)), "--shutdown-grace-period-secs", "0")...)
		at := strings.TrimSuffix(g.says(`profiles can be fetched" url=(http://\S+)`)[1], "/debug/pprof/")
		runs := func(path, what string) bool {
			a := do(t, http.MethodGet, at+path+"/debug/pprof/goroutine?debug=2", "")
			return a.status == http.StatusOK && strings.Contains(a.body, what)
		}
		const api, keeps, registers = "smg/ingress.(*Server).Run", "smg/legs.(*Service)", "smg/bootstrap.(*Registrar).Run"
		if !runs("", registers) {
			t.Error("no profile of who registers workers")
		}
		if topology[1] == "single" {
			if !runs("", api) || !runs("", keeps) {
				t.Error("no profile of the API and its selector")
			}
			if a := do(t, http.MethodGet, at+"/ingress/debug/pprof/", ""); a.status != http.StatusNotFound {
				t.Errorf("a child that there is not: %d", a.status)
			}
			return
		}
		if runs("", api) || runs("", keeps) || !runs("/ingress", api) || runs("/ingress", keeps) || !runs("/selector-regular", keeps) || runs("/selector-regular", api) {
			t.Error("a process shows what another does")
		}
		g.kill("ingress", syscall.SIGKILL)
		await(t, "another ingress", func() bool { return len(g.pidsOf("ingress")) == 2 })
		await(t, "its profile", func() bool { return runs("/ingress", api) })
	}})
	cases(t, map[string]func(t *testing.T){"no_profiles": func(t *testing.T) {
		g := oneEngine(t, "--topology", "split", "--shutdown-grace-period-secs", "0")
		for _, page := range []string{g.url, strings.TrimSuffix(g.metrics, "/metrics")} {
			if a := do(t, http.MethodGet, page+"/debug/pprof/", ""); a.status != http.StatusNotFound {
				t.Errorf("%s shows profiles that nobody asked for: %d", page, a.status)
			}
		}
	}})
}
