package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// shown is a worker as the API shows it.
type shown struct {
	ID              string
	URL             string
	Status          string
	Healthy         bool `json:"is_healthy"`
	Load            int
	Conflict        string
	Remarks         []string
	KVEngineID      string `json:"kv_engine_id"`
	BootstrapPort   int    `json:"bootstrap_port"`
	BootstrapSource string `json:"bootstrap_source"`
	Labels          map[string]string
	Job             *struct {
		Status  string
		Message string
	} `json:"job_status"`
}

// worker is the one at a URL.
func (g *gateway) worker(url string) (w shown, status int) {
	g.t.Helper()
	a := do(g.t, http.MethodGet, g.url+"/workers/"+url, "")
	if a.status == http.StatusOK {
		if err := json.Unmarshal([]byte(a.body), &w); err != nil {
			g.t.Fatal(err)
		}
	}
	return w, a.status
}

// add adds a worker, of which fields are more members.
func (g *gateway) add(url, fields string) (location string) {
	g.t.Helper()
	a := do(g.t, http.MethodPost, g.url+"/workers", fmt.Sprintf(`{"url":%q%s}`, url, fields))
	if a.status != http.StatusAccepted {
		g.t.Fatalf("status %d: %s", a.status, a.body)
	}
	return a.header.Get("Location")
}

// added adds a worker that runs, and waits until it is chosen.
func (g *gateway) added(url, fields string) {
	g.t.Helper()
	g.add(url, fields)
	await(g.t, "the worker that was added", func() bool {
		w, _ := g.worker(url)
		return w.Healthy
	})
	await(g.t, "an answer of it", func() bool { return g.answersWithin(url, 50) })
}

// answersWithin says whether one of n answers is a worker's.
func (g *gateway) answersWithin(url string, n int) bool {
	g.t.Helper()
	for range n {
		a := do(g.t, http.MethodPost, g.url+"/v1/chat/completions", chat)
		if a.status != http.StatusOK {
			return false
		}
		if a.header.Get("X-Smg-Routed-Worker-Id") == url {
			return true
		}
	}
	return false
}

// remove removes a worker.
func (g *gateway) remove(name string) {
	g.t.Helper()
	if a := do(g.t, http.MethodDelete, g.url+"/workers/"+name, ""); a.status != http.StatusAccepted {
		g.t.Fatalf("status %d: %s", a.status, a.body)
	}
}

// routed is how many of n answers each worker gives.
func (g *gateway) routed(n int) map[string]int {
	g.t.Helper()
	by := map[string]int{}
	for range n {
		by[askChat(g.t, g.url)]++
	}
	return by
}

// fails wants an error of the routes of workers.
func (a answer) fails(t *testing.T, status int, code string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.body, `"code":"`+code+`"`) {
		t.Errorf("status %d %s, want %d %s", a.status, a.body, status, code)
	}
}

// inFront starts a gateway without workers.
func inFront(t *testing.T, args ...string) *gateway {
	t.Helper()
	all := append([]string{"launch", "--host", "127.0.0.1", "--shutdown-grace-period-secs", "0"}, gatewayArgs(t, "")...)
	g := &gateway{process: start(t, "smg", append(all, args...)...)}
	m := g.says(`^api +(http://\S+) +metrics +(http://\S+)`)
	g.url, g.metrics = m[1], m[2]
	await(t, "the API", func() bool { return !refused(t, g.url+"/health") && status(t, g.url+"/health") == http.StatusOK })
	return g
}

// slow is an engine whose streams take a while.
func slow(step time.Duration) simhttp.Config {
	cfg := simtest.Config()
	cfg.TimeScale, cfg.Core.DecodeStep = 1, step
	return cfg
}

// topologies runs cases in one process and in several.
func topologies(t *testing.T, all map[string]func(t *testing.T, topology ...string)) {
	t.Helper()
	for name, run := range all {
		for _, topology := range []string{"single", "split"} {
			t.Run(name+"_"+topology, func(t *testing.T) {
				parallel(t)
				run(t, "--topology", topology)
			})
		}
	}
}

func TestGateway(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"5_a_worker_is_added":         workerAdded,
		"11_first_label_decides":      firstLabelDecides,
		"a_worker_is_removed":         workerRemoved,
		"a_registration_is_removed":   registrationRemoved,
		"bootstrap_address_conflicts": bootstrapConflicts,
	})
}

func workerAdded(t *testing.T, topology ...string) {
	first := simtest.StartN(t, 1, simtest.Config())[0].URL
	g := launched(t, []string{first}, append(topology, "--policy", "round_robin", "--worker-startup-check-interval", "1", "--shutdown-grace-period-secs", "0")...)
	at := port(t)
	late := fmt.Sprintf("http://127.0.0.1:%d", at)
	location := g.add(late, "")
	await(t, "the first try", func() bool {
		w, _ := g.worker(late)
		return w.Job != nil && strings.Contains(w.Job.Message, "connection refused")
	})
	if w, code := g.worker(late); code != http.StatusOK || w.Status != "pending" || w.Healthy || location != "/workers/"+w.ID {
		t.Errorf("before it runs: %d %+v, location %s", code, w, location)
	}
	if list := get(t, g.url+"/workers"); strings.Contains(list, late) {
		t.Errorf("it is listed before it is registered: %s", list)
	}
	do(t, http.MethodPost, g.url+"/workers", fmt.Sprintf(`{"url":%q}`, late+"/")).fails(t, http.StatusConflict, "WORKER_CREATE_IN_PROGRESS")
	start(t, "smg-sim", "--port", strconv.Itoa(at), "--time-scale", "0")
	await(t, "the worker to be ready", func() bool {
		a := do(t, http.MethodGet, g.url+location, "")
		if a.status != http.StatusOK {
			t.Fatalf("status %d on the way: %s", a.status, a.body)
		}
		return strings.Contains(a.body, `"status":"ready"`) && !strings.Contains(a.body, "job_status")
	})
	do(t, http.MethodPost, g.url+"/workers", fmt.Sprintf(`{"url":%q}`, late)).fails(t, http.StatusConflict, "WORKER_ALREADY_EXISTS")
	do(t, http.MethodPost, g.url+"/workers", fmt.Sprintf(`{"url":%q}`, first)).fails(t, http.StatusConflict, "WORKER_ALREADY_EXISTS")
	await(t, "its first answer", func() bool { return g.answersWithin(late, 2) })
	if by := g.routed(6); by[first] != 3 || by[late] != 3 {
		t.Errorf("the turns are not even: %v", by)
	}
	if slices.Contains(topology, "split") { // it is known to all, not to who added it alone
		g.kill("ingress", syscall.SIGKILL)
		if by := g.routed(6); by[late] == 0 {
			t.Errorf("a new ingress does not know it: %v", by)
		}
	}
	g.stop(0)
}

func firstLabelDecides(t *testing.T, topology ...string) {
	g := inFront(t, append(topology, "--policy", "round_robin")...)
	engines := urls(simtest.StartN(t, 2, simtest.Config()))
	other := simtest.Config()
	other.Model = "other"
	third := simtest.StartN(t, 1, other)[0].URL
	a, b := engines[0], engines[1]
	g.added(a, `,"labels":{"policy":"least_load"}`)
	g.added(b, `,"labels":{"policy":"random"}`)
	g.add(third, `,"labels":{"policy":"random"}`)
	chose := func(policy string) float64 {
		sum := 0.0
		for labels, v := range gauges(t, g.metrics, "smg_worker_selection_total") {
			if strings.Contains(labels, `policy="`+policy+`"`) {
				sum += v
			}
		}
		return sum
	}
	chooses := func(policy, body string, n int) {
		t.Helper()
		before := chose(policy)
		for range n {
			await(t, "an answer", func() bool { return do(t, http.MethodPost, g.url+"/v1/chat/completions", body).status == http.StatusOK })
		}
		await(t, fmt.Sprintf("%d selections by %s", n, policy), func() bool { return chose(policy) == before+float64(n) })
	}
	chooses("least_load", chat, 4)
	if n := chose("random"); n != 0 {
		t.Errorf("%v selections by the label of the second worker", n)
	}
	chooses("random", strings.Replace(chat, `"sim"`, `"other"`, 1), 2)
	g.remove(a)
	chooses("least_load", chat, 2)
	g.remove(b)
	await(t, "nobody to be left", func() bool {
		return do(t, http.MethodPost, g.url+"/v1/chat/completions", chat).status == http.StatusNotFound
	})
	g.added(b, `,"labels":{"policy":"random"}`)
	chooses("random", chat, 2)
	g.stop(0)
}

func workerRemoved(t *testing.T, topology ...string) {
	const tokens = 150
	engines := urls(simtest.StartN(t, 2, slow(10*time.Millisecond)))
	g := launched(t, engines, append(topology, "--policy", "round_robin")...)
	s := openStream(t, g.url, tokens)
	removed := s.resp.Header.Get("X-Smg-Routed-Worker-Id")
	w, _ := g.worker(removed)
	if w.Load != 1 {
		t.Errorf("load %d while a stream runs, want 1", w.Load)
	}
	g.remove(w.ID)
	await(t, "the worker to be gone", func() bool {
		_, code := g.worker(removed)
		return code == http.StatusNotFound && !strings.Contains(get(t, g.metrics), `smg_selector_requests_active{worker="`+removed)
	})
	if by := g.routed(6); by[removed] != 0 {
		t.Errorf("it was chosen after its removal: %v", by)
	}
	do(t, http.MethodDelete, g.url+"/workers/"+w.ID, "").fails(t, http.StatusNotFound, "WORKER_NOT_FOUND")
	if pieces, whole := s.rest(); !whole || pieces < tokens/2 {
		t.Errorf("its stream: %d pieces, whole: %v", pieces, whole)
	}
	g.silent("level=(WARN|ERROR)")
	g.stop(0)
}

// registrationRemoved ends the registration of a worker that comes too late.
func registrationRemoved(t *testing.T, topology ...string) {
	first := simtest.StartN(t, 1, simtest.Config())[0].URL
	g := launched(t, []string{first}, append(topology, "--policy", "round_robin", "--worker-startup-check-interval", "1", "--shutdown-grace-period-secs", "0")...)
	at := port(t)
	late := fmt.Sprintf("http://127.0.0.1:%d", at)
	g.add(late, "")
	g.says("worker is not answering. worker=" + late)
	g.remove(late)
	if _, code := g.worker(late); code != http.StatusNotFound {
		t.Errorf("status %d after its removal", code)
	}
	do(t, http.MethodDelete, g.url+"/workers/"+late, "").fails(t, http.StatusNotFound, "WORKER_NOT_FOUND")
	start(t, "smg-sim", "--port", strconv.Itoa(at), "--time-scale", "0")
	await(t, "the engine", func() bool { return !refused(t, late+"/health") })
	g.added(late, "") // which was refused if the first registration ran on
	if n := g.count("worker registered. worker=" + late); n != 1 {
		t.Errorf("it was registered %d times, want once", n)
	}
	g.stop(0)
}

// bootstrapConflicts has prefill workers come and go, of which those of the command
// line and those that are added have registrars of their own in split topology.
func bootstrapConflicts(t *testing.T, topology ...string) {
	pd := simtest.StartPD(t, 2, 1, simtest.Config())
	first, second := pd.Prefill[0], pd.Prefill[1]
	args := append([]string{"launch", "--host", "127.0.0.1", "--pd-disaggregation", "--shutdown-grace-period-secs", "0"}, gatewayArgs(t, "")...)
	args = append(args, topology...)
	g := &gateway{process: start(t, "smg", append(args, "--prefill", first.URL, strconv.Itoa(first.PeerPort), "--decode", pd.Decode[0].URL)...)}
	m := g.says(`^api +(http://\S+) +metrics +(http://\S+)`)
	g.url, g.metrics = m[1], m[2]
	g.says(`^ready +2 of `)
	g.add(second.URL, fmt.Sprintf(`,"worker_type":"prefill","bootstrap_port":%d`, first.PeerPort))
	await(t, "the conflict", func() bool {
		w, _ := g.worker(second.URL)
		return strings.Contains(w.Conflict, "bootstrap_port_conflict: "+first.URL) && w.BootstrapSource == "spec"
	})
	if n := total(t, g.metrics, "smg_bootstrap_conflicts"); n != 1 {
		t.Errorf("%v conflicts in the metrics, want 1", n)
	}
	askChat(t, g.url)
	g.remove(first.URL)
	await(t, "the conflict to end", func() bool {
		w, _ := g.worker(second.URL)
		return w.ID != "" && w.Conflict == "" && w.Healthy
	})
	// The port that its engine really has is known to the engine.
	g.remove(second.URL)
	g.add(second.URL, `,"worker_type":"prefill"`)
	await(t, "its engine's port", func() bool {
		w, _ := g.worker(second.URL)
		return w.BootstrapPort == second.PeerPort && w.BootstrapSource == "engine" && w.Healthy
	})
	await(t, "an answer", func() bool { return do(t, http.MethodPost, g.url+"/v1/chat/completions", chat).status == http.StatusOK })
	do(t, http.MethodPost, g.url+"/workers", `{"url":"http://127.0.0.1:1"}`).fails(t, http.StatusBadRequest, "BAD_REQUEST")
	g.stop(0)
}

// newLabels registers a worker anew while requests run on it.
func newLabels(t *testing.T, topology ...string) {
	engine := simtest.StartN(t, 1, slow(20*time.Millisecond))[0].URL
	g := launched(t, []string{engine}, append(topology, "--policy", "round_robin", "--shutdown-grace-period-secs", "0")...)
	var streams []*events
	for range 3 {
		streams = append(streams, openStream(t, g.url, 100))
	}
	counts := func(n float64) func() bool {
		return func() bool {
			label := fmt.Sprintf(`{worker=%q}`, engine)
			return gauges(t, g.metrics, "smg_worker_requests_active")[label] == n && gauges(t, g.metrics, "smg_selector_requests_active")[label] == n
		}
	}
	await(t, "three calls in flight", counts(3))
	g.remove(engine)
	g.add(engine, `,"labels":{"zone":"b"}`)
	await(t, "the new labels", func() bool {
		w, _ := g.worker(engine)
		return w.Healthy && w.Labels["zone"] == "b" && w.Load == 3
	})
	await(t, "the same three calls", counts(3))
	for i, s := range streams {
		if pieces, whole := s.rest(); !whole || pieces < 50 {
			t.Errorf("stream %d: %d pieces, whole: %v", i, pieces, whole)
		}
	}
	await(t, "no call in flight", counts(0))
	g.stop(0)
}

// TestAddedWorkersOutliveTheBucket has the servers of NATS lose what they know.
func TestAddedWorkersOutliveTheBucket(t *testing.T) {
	parallel(t)
	n := startNATS(t)
	engine := simtest.StartN(t, 2, simtest.Config())
	selectorOn(t, n.url(), "regular", "--policy", "round_robin")
	g := ingressOn(t, n.url(), "--drain-settle-secs", "0")
	await(t, "the bus", func() bool {
		return do(t, http.MethodPost, g.url+"/v1/chat/completions", chat).status == http.StatusNotFound
	})
	g.added(engine[0].URL, "")
	g.added(engine[1].URL, "")
	g.remove(engine[0].URL)
	n.stop()
	n.start()
	other := ingressOn(t, n.url())
	await(t, "the worker to be known to one who came later", func() bool {
		w, _ := other.worker(engine[1].URL)
		return w.Healthy
	})
	if _, code := other.worker(engine[0].URL); code != http.StatusNotFound {
		t.Errorf("status %d of the one that was removed", code)
	}
	// Whoever removes it need not be who added it.
	other.remove(engine[1].URL)
	await(t, "the removal", func() bool {
		_, code := g.worker(engine[1].URL)
		return code == http.StatusNotFound
	})
}
