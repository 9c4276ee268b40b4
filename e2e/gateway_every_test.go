package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// everyPolicy are the ten.
var everyPolicy = []string{
	"bucket", "cache_aware", "consistent_hashing", "least_load", "manual", "passthrough", "power_of_two", "prefix_hash", "random", "round_robin",
}

// TestGatewayEveryPolicy is what depends on no policy, with a model for each of them.
func TestGatewayEveryPolicy(t *testing.T) {
	parallel(t)
	for _, topology := range []string{"single", "split"} {
		t.Run(topology, func(t *testing.T) {
			s := startEvery(t, "--topology", topology)
			for _, c := range []struct {
				name string
				run  func(t *testing.T, s *everySite)
			}{
				{"48_counted_for_as_long_as_it_streams", countedWhileItStreams},
				{"39_overload_under_every_policy", overloadUnderEveryPolicy},
			} {
				t.Run(c.name, func(t *testing.T) {
					s.t = t
					c.run(t, s)
				})
			}
			s.t = t
			s.stop(0)
		})
	}
}

// everySite is a gateway of models that are named for their policies, with two workers
// each, and with keys that are pinned on top of the policy.
type everySite struct {
	*gateway
	by map[string][]*simtest.Engine
}

// calm and swamped are reports on both sides of a limit of 5.
var calm, swamped = simctl.LoadsOverride{Waiting: new(4)}, simctl.LoadsOverride{Waiting: new(5)}

func startEvery(t *testing.T, args ...string) *everySite {
	t.Helper()
	s := &everySite{by: map[string][]*simtest.Engine{}}
	s.gateway = inFront(t, append(args, "--routing-key-override", "--worker-overload-waiting-requests", "5",
		"--plan-timeout-ms", strconv.FormatInt(patience.Milliseconds(), 10))...)
	for _, model := range everyPolicy {
		cfg := slow(20 * time.Millisecond)
		cfg.Model = model
		s.by[model] = simtest.StartN(t, 2, cfg)
		for _, e := range s.by[model] {
			reports(t, e, calm)
			s.add(e.URL, fmt.Sprintf(`,"load_monitor_interval_secs":1,"labels":{"policy":%q}`, model))
		}
	}
	for _, model := range everyPolicy {
		for _, e := range s.by[model] {
			await(t, "the worker to be ready", func() bool {
				w, _ := s.worker(e.URL)
				return w.Healthy && gauges(t, s.metrics, "smg_worker_health")[fmt.Sprintf("{worker=%q}", e.URL)] == 1
			})
		}
		await(t, "an answer for "+model, func() bool { return s.ask(t, model).status == http.StatusOK })
	}
	s.quiet(t)
	return s
}

// ask asks a model for a token.
func (s *everySite) ask(t *testing.T, model string, header ...string) answer {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello"}],"max_tokens":1}`, model)
	return do(t, http.MethodPost, s.url+chatPath, body, header...)
}

// active are the workers of whom calls are counted, and how many.
func (s *everySite) active(t *testing.T) map[string]float64 {
	t.Helper()
	by := map[string]float64{}
	for labels, v := range gauges(t, s.metrics, "smg_worker_requests_active") {
		if v != 0 {
			by[label(labels, "worker")] = v
		}
	}
	return by
}

// quiet waits until nobody counts a call.
func (s *everySite) quiet(t *testing.T) {
	t.Helper()
	awaitSame(t, "calls in flight", map[string]float64{}, func() map[string]float64 { return s.active(t) })
	await(t, "the selectors to count none", func() bool { return total(t, s.metrics, "smg_selector_requests_active") == 0 })
}

// countedWhileItStreams has a stream of each policy stand still.
func countedWhileItStreams(t *testing.T, s *everySite) {
	streams, want := map[string]*events{}, map[string]float64{}
	var frozen []*simtest.Engine
	for _, model := range everyPolicy {
		resp, err := open(t, http.MethodPost, s.url+chatPath, strings.Replace(chatStream(40), `"sim"`, strconv.Quote(model), 1))
		if err != nil {
			t.Fatal(err)
		}
		streams[model] = eventsOf(t, resp)
		for _, e := range s.by[model] {
			if e.URL == resp.Header.Get("X-Smg-Routed-Worker-Id") {
				if err := e.SetFaults(t.Context(), simctl.Faults{Record: true, Loads: &calm, Freeze: true}); err != nil {
					t.Fatal(err)
				}
				frozen, want[e.URL] = append(frozen, e), 1
			}
		}
	}
	awaitSame(t, "calls while all streams stand still", want, func() map[string]float64 { return s.active(t) })
	for _, e := range frozen {
		reports(t, e, calm)
	}
	for model, stream := range streams {
		if pieces, whole := stream.rest(); !whole || pieces < 20 {
			t.Errorf("%s: %d pieces, whole: %v", model, pieces, whole)
		}
	}
	s.quiet(t)
}

// overloadUnderEveryPolicy has the worker of a key report too much, then the other one,
// too, and then less again.
func overloadUnderEveryPolicy(t *testing.T, s *everySite) {
	keyed := []string{"X-SMG-Routing-Key", "of-a-conversation"}
	home, other := map[string]*simtest.Engine{}, map[string]*simtest.Engine{}
	for round := range 2 {
		for _, model := range everyPolicy {
			by := s.ask(t, model, keyed...).header.Get("X-Smg-Routed-Worker-Id")
			i := slices.IndexFunc(s.by[model], func(e *simtest.Engine) bool { return e.URL == by })
			if i < 0 {
				t.Fatalf("%s is no worker of %s", by, model)
			}
			if e := s.by[model][i]; round > 0 && e != home[model] {
				t.Errorf("%s: the key went to %s, then to %s", model, home[model].URL, by)
			}
			home[model], other[model] = s.by[model][i], s.by[model][1-i]
		}
		s.quiet(t)
	}
	report := func(of map[string]*simtest.Engine, loads simctl.LoadsOverride, vetoed float64) {
		t.Helper()
		want := map[string]float64{}
		for model, e := range of {
			reports(t, e, loads)
			want[fmt.Sprintf("{model=%q}", model)] = vetoed
		}
		awaitSame(t, "workers that are overloaded", want, func() map[string]float64 {
			all := gauges(t, s.metrics, "smg_workers_overloaded")
			for labels := range all {
				if _, ok := want[labels]; !ok {
					delete(all, labels)
				}
			}
			return all
		})
	}
	onlyOther := func(when string) {
		t.Helper()
		for _, model := range everyPolicy {
			await(t, "an answer for "+model, func() bool { return s.ask(t, model).status == http.StatusOK }) // the API learns it, too
			for _, header := range [][]string{nil, nil, keyed} {
				a := s.ask(t, model, header...)
				if by := a.header.Get("X-Smg-Routed-Worker-Id"); a.status != http.StatusOK || by != other[model].URL {
					t.Errorf("%s, %s, header %q: %d of %s, want %s", model, when, header, a.status, by, other[model].URL)
				}
			}
		}
		s.quiet(t)
	}
	report(home, swamped, 1)
	onlyOther("one is overloaded")

	report(other, swamped, 2)
	before := s.chats(t)
	sheds := gauges(t, s.metrics, "smg_worker_overload_shed_total")
	for _, model := range everyPolicy {
		for _, header := range [][]string{nil, keyed} {
			a := s.ask(t, model, header...)
			a.fails(t, http.StatusServiceUnavailable, "worker_overload_protection_shed")
			if after := a.header.Get("Retry-After"); after != "10" || !strings.Contains(a.body, model) {
				t.Errorf("%s, header %q: Retry-After %q, %s", model, header, after, a.body)
			}
		}
	}
	if n := s.chats(t) - before; n != 0 { // retries are on
		t.Errorf("%d requests came to workers", n)
	}
	sheds[`{stage="selection"}`] += float64(2 * len(everyPolicy))
	awaitSame(t, "sheds", sheds, func() map[string]float64 { return gauges(t, s.metrics, "smg_worker_overload_shed_total") })

	report(other, calm, 1)
	onlyOther("the other one is not any more")
}

// chats is how many have come to workers.
func (s *everySite) chats(t *testing.T) (n int) {
	t.Helper()
	for _, engines := range s.by {
		for _, e := range engines {
			n += got(t, e, chatPath)
		}
	}
	return n
}
