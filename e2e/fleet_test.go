package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// chatPath is where most requests go.
const chatPath = "/v1/chat/completions"

// legs is a kind of disaggregated fleet, and how the gateway in front of it starts.
type legs struct {
	kind  simhttp.Kind
	roles roles
	cfg   func(*simhttp.Config) // changes the engines', may be nil
	args  []string
	// charging has one failure open a worker's breaker for good, so that
	// [legFleet.charges] can tell who was charged.
	charging bool
}

// legFleet is a gateway in front of engines with roles that run in the test's own
// process: their faults, records and ledgers are at hand.
type legFleet struct {
	*gateway
	legs
	pd       *simtest.PD
	split    bool
	mooncake bool // prefill workers have a bootstrap port, at which Mooncake answers
}

// row is a case of a numbered table. The name begins with its number, as in
// F9_decode_429: a name counts for one number.
type row struct {
	name string
	run  func(t *testing.T, f *legFleet)
}

// rows runs every row on each topology, as <topology>/<name>, all rows of a topology
// on one gateway, which is as new for each of them.
func (l legs) rows(t *testing.T, rows ...row) {
	t.Helper()
	l.inBoth(t, func(t *testing.T, f *legFleet) {
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				f.t = t // says and the like fail the test in which they are called
				f.fresh(t)
				r.run(t, f)
				f.quiet(t)
			})
		}
	})
}

// inBoth runs a test with a gateway of each topology and engines of its own. Both
// start at the same time, since split spends most of its start waiting.
func (l legs) inBoth(t *testing.T, run func(t *testing.T, f *legFleet)) {
	t.Helper()
	split, single := l.start(t, "split"), l.start(t, "single")
	split.split = true
	for _, f := range []*legFleet{single, split} {
		name := "single"
		if f.split {
			name = "split"
		}
		t.Run(name, func(t *testing.T) {
			f.t = t
			run(t, f)
			f.t = t
			f.stop(0)
		})
	}
}

// start starts engines, and a gateway that does not know them yet: see
// [legFleet.fresh].
func (l legs) start(t *testing.T, topology string) *legFleet {
	t.Helper()
	cfg := simtest.Config()
	cfg.Kind = l.kind
	cfg.Disagg.Lease = 3 * time.Second // what nobody fetches falls; a busy machine must not make the rest fall
	if l.cfg != nil {
		l.cfg(&cfg)
	}
	f := &legFleet{legs: l, mooncake: cfg.Disagg.Connector == simhttp.MooncakeConnector}
	mode := "--pd-disaggregation"
	switch {
	case l.roles.encode > 0 && l.kind == simhttp.VLLM:
		mode = "--epd-disaggregation"
		f.pd = simtest.StartEPD(t, l.roles.encode, l.roles.prefill, l.roles.decode, cfg)
	case l.roles.encode > 0:
		mode = "--epd-disaggregation"
		f.pd = simtest.StartSGLangEPD(t, l.roles.encode, l.roles.prefill, l.roles.decode, cfg)
	default:
		f.pd = simtest.StartPD(t, l.roles.prefill, l.roles.decode, cfg)
	}
	args := append([]string{mode, "--topology", topology, "--policy", "round_robin"}, l.args...)
	if l.charging {
		args = append(args, "--cb-failure-threshold", "1", "--cb-timeout-duration-secs", "3600")
	}
	f.gateway = inFront(t, args...)
	return f
}

// engines are those of a leg.
func (f *legFleet) engines(leg string) []*simtest.Engine {
	switch leg {
	case "encode":
		return f.pd.Encode
	case "prefill":
		return f.pd.Prefill
	case "decode":
		return f.pd.Decode
	}
	f.t.Fatalf("there is no leg %s", leg)
	return nil
}

// each calls do with every engine, its leg, and what tests call it, such as decode 1.
func (f *legFleet) each(do func(leg, name string, e *simtest.Engine)) {
	for _, leg := range []string{"encode", "prefill", "decode"} {
		for i, e := range f.engines(leg) {
			do(leg, fmt.Sprintf("%s %d", leg, i), e)
		}
	}
}

// fresh takes all workers out and adds them anew, with closed breakers and engines
// that have no faults and record what comes. It returns when all can be chosen.
func (f *legFleet) fresh(t *testing.T) {
	t.Helper()
	f.each(func(_, _ string, e *simtest.Engine) {
		if err := e.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	f.each(func(_, _ string, e *simtest.Engine) {
		if _, status := f.worker(e.URL); status == http.StatusOK {
			f.remove(e.URL)
		}
	})
	f.each(func(leg, _ string, e *simtest.Engine) {
		await(t, "the worker's end", func() bool {
			_, status := f.worker(e.URL)
			return status == http.StatusNotFound
		})
		f.join(leg, e)
	})
	f.usable(t)
	f.each(func(_, _ string, e *simtest.Engine) {
		if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
			t.Fatal(err)
		}
	})
}

// join adds a worker of a leg. See [legFleet.usable].
func (f *legFleet) join(leg string, e *simtest.Engine) {
	f.t.Helper()
	fields := fmt.Sprintf(`,"worker_type":%q`, leg)
	if leg == "prefill" && (f.kind == simhttp.SGLang || f.mooncake) {
		fields += fmt.Sprintf(`,"bootstrap_port":%d`, e.PeerPort)
	}
	f.add(e.URL, fields)
}

// without takes a leg's workers out.
func (f *legFleet) without(t *testing.T, leg string) {
	t.Helper()
	for _, e := range f.engines(leg) {
		f.remove(e.URL)
		await(t, "the worker's end", func() bool {
			_, status := f.worker(e.URL)
			return status == http.StatusNotFound && gauges(t, f.metrics, "smg_worker_health")[fmt.Sprintf(`{worker=%q}`, e.URL)] == -1
		})
	}
}

// usable waits until every worker is ready, as its leg's selector sees it and as the
// API does.
func (f *legFleet) usable(t *testing.T) {
	t.Helper()
	await(t, "all workers", func() bool {
		health, breakers := gauges(t, f.metrics, "smg_worker_health"), gauges(t, f.metrics, "smg_worker_cb_state")
		all := true
		f.each(func(_, _ string, e *simtest.Engine) {
			label := fmt.Sprintf(`{worker=%q}`, e.URL)
			w, status := f.worker(e.URL)
			all = all && status == http.StatusOK && w.Healthy && health[label] == 1 && breakers[label] == 0
		})
		return all
	})
}

// faults has every engine of a leg behave like this, and record what comes.
func (f *legFleet) faults(t *testing.T, leg string, faults simctl.Faults) {
	t.Helper()
	faults.Record = true
	for _, e := range f.engines(leg) {
		if err := e.SetFaults(t.Context(), faults); err != nil {
			t.Fatal(err)
		}
	}
}

// refuses has every engine of a leg answer requests of a path with a status and the
// words "no, thanks", late enough for the other leg to have its request.
func (f *legFleet) refuses(t *testing.T, leg, path string, status int) {
	t.Helper()
	f.faults(t, leg, simctl.Faults{Rules: []simctl.Rule{{
		Match: simctl.Match{Path: path}, Delay: simctl.Duration(100 * time.Millisecond), Status: status, Body: []byte(`{"error":{"message":"no, thanks"}}`),
	}}})
}

// asks asks a short question, whole; fields are more members of its body, such as
// `,"stream":true`.
func (f *legFleet) asks(t *testing.T, fields string) answer {
	t.Helper()
	return do(t, http.MethodPost, f.url+chatPath, chatWith(fields))
}

func chatWith(fields string) string {
	return `{"model":"sim","messages":[{"role":"user","content":"Hello"}],"max_tokens":5` + fields + `}`
}

// seen are the requests for a path that have reached a leg, "" for all paths.
func (f *legFleet) seen(t *testing.T, leg, path string) []simctl.Record {
	t.Helper()
	var all []simctl.Record
	for _, e := range f.engines(leg) {
		records, err := e.Records(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
	}
	return all
}

// closedWithin wants each request for a path that a leg has got ended by the gateway
// that soon after it came. There may be none: one that is dropped at once may not
// get there.
func (f *legFleet) closedWithin(t *testing.T, leg, path string, d time.Duration) {
	t.Helper()
	f.abandoned(t, leg, path)
	for _, r := range f.seen(t, leg, path) {
		if took := r.CallerClosed.Sub(r.Arrived); took > d {
			t.Errorf("%s was left after %v, want %v at most", leg, took, d)
		}
	}
}

// abandoned waits until the gateway has left each request for a path that a leg has got.
func (f *legFleet) abandoned(t *testing.T, leg, path string) {
	t.Helper()
	awaitSame(t, "requests that have not been left at "+leg, nil, func() []string {
		var open []string
		for _, r := range f.seen(t, leg, path) {
			if r.CallerClosed.IsZero() {
				open = append(open, fmt.Sprintf("%d on connection %d: status %d, %d bytes, came %s, ended %s, connection closed %s",
					r.Seq, r.Conn, r.Status, len(r.Body), r.Arrived.Format(time.StampMilli), r.Ended.Format(time.StampMilli), r.ConnClosed.Format(time.StampMilli)))
			}
		}
		return open
	})
}

// charges wants failures of these workers, such as "decode 1", and of no others, since
// fresh. The gateway must be one that charges.
func (f *legFleet) charges(t *testing.T, want ...string) {
	t.Helper()
	if !f.charging {
		t.Fatal("this gateway's breakers do not tell")
	}
	f.idle(t)
	slices.Sort(want)
	awaitSame(t, "workers that were charged", strings.Join(want, ", "), func() string {
		var charged []string
		breakers := gauges(t, f.metrics, "smg_worker_cb_state")
		f.each(func(_, name string, e *simtest.Engine) {
			if breakers[fmt.Sprintf(`{worker=%q}`, e.URL)] > 0 {
				charged = append(charged, name)
			}
		})
		slices.Sort(charged)
		return strings.Join(charged, ", ")
	})
}

// fails wants an error of the gateway that says these words, as an envelope or as an
// event.
func (f *legFleet) fails(t *testing.T, a answer, status int, code string, words ...string) {
	t.Helper()
	if a.status != status || a.header.Get("X-Smg-Error-Code") != code || !strings.Contains(a.body, `"code":"`+code+`"`) {
		t.Errorf("status %d, code %q, want %d, %q: %s", a.status, a.header.Get("X-Smg-Error-Code"), status, code, a.body)
	}
	for _, w := range words {
		if !strings.Contains(a.body, w) {
			t.Errorf("%s does not say %q", a.body, w)
		}
	}
}

// idle waits until the ingress and the selectors count nothing in flight.
func (f *legFleet) idle(t *testing.T) {
	t.Helper()
	await(t, "nothing to be in flight", func() bool {
		for _, name := range []string{"smg_worker_requests_active", "smg_selector_requests_active", "smg_bootstrap_rooms_active"} {
			if total(t, f.metrics, name) != 0 {
				return false
			}
		}
		return true
	})
}

// quiet waits until nothing is in flight and no engine holds anything.
func (f *legFleet) quiet(t *testing.T) {
	t.Helper()
	f.idle(t)
	f.each(func(_, name string, e *simtest.Engine) {
		if l, err := e.WaitIdle(t.Context()); err != nil {
			t.Errorf("%s still holds %+v: %v", name, l, err)
		}
	})
}
