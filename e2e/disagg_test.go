package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"smg/sim/simctl"
)

// roles are the engines of a disaggregated fleet.
type roles struct{ encode, prefill, decode int }

// serveRoles starts smg serve with simulated engines in roles and waits until all
// are ready. args follow the flags that every test needs.
func serveRoles(t *testing.T, r roles, args ...string) *gateway {
	t.Helper()
	all := []string{
		"serve", "--backend", "sim", "--prefill-replicas", strconv.Itoa(r.prefill), "--decode-replicas", strconv.Itoa(r.decode),
		"--port", strconv.Itoa(port(t)), "--worker-base-port", strconv.Itoa(block(t, 30)), "--bootstrap-base-port", strconv.Itoa(block(t, 10)),
		"--router-prometheus-host", "127.0.0.1", "--router-prometheus-port", "0",
	}
	if r.encode > 0 {
		all = append(all, "--encode-replicas", strconv.Itoa(r.encode))
	}
	g := &gateway{process: start(t, "smg", append(all, args...)...)}
	g.says("^try: ")
	g.url = g.says(`^api +(http://\S+)`)[1]
	g.metrics = g.says(`^metrics +(http://\S+)`)[1]
	for _, role := range []struct {
		name string
		n    int
	}{{"encode", r.encode}, {"prefill", r.prefill}, {"decode", r.decode}} {
		for i := range role.n {
			g.engines = append(g.engines, "http://127.0.0.1:"+g.says(fmt.Sprintf(`^%s %d +pid \d+ +port (\d+)`, role.name, i))[1])
		}
	}
	return g
}

// picture is a small image as chats carry it.
const picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// questions are asked of every fleet.
var questions = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"Where is Käse made?"}],"temperature":0,"max_tokens":30%s}`},
	{"completions", "/v1/completions", `{"model":"sim","prompt":"Once upon a time","temperature":0,"max_tokens":30%s}`},
	{"image", "/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"` + picture + `"}}]}],"temperature":0,"max_tokens":30%s}`},
}

func TestSameTextThroughLegs(t *testing.T) {
	for _, kind := range []string{"sglang", "vllm"} {
		one := serve(t, 1, "--", "--time-scale", "0", "--engine", kind)
		fleets := map[string]*gateway{"prefill and decode": serveRoles(t, roles{prefill: 2, decode: 2}, "--", "--time-scale", "0", "--engine", kind)}
		if kind == "vllm" {
			fleets["encode, prefill and decode"] = serveRoles(t, roles{encode: 2, prefill: 2, decode: 2}, "--", "--time-scale", "0")
		}
		for name, g := range fleets {
			for _, q := range questions {
				t.Run(kind+"/"+name+"/"+q.name, func(t *testing.T) {
					want, err := ask(t.Context(), one.url+q.path, fmt.Sprintf(q.body, ""))
					if err != nil {
						t.Fatal(err)
					}
					if len(want) < 10 {
						t.Fatalf("the engine's text %q is too short to compare", want)
					}
					for _, stream := range []string{"", `,"stream":true`} {
						for range 2 {
							got, err := ask(t.Context(), g.url+q.path, fmt.Sprintf(q.body, stream))
							if err != nil {
								t.Fatal(err)
							}
							if got != want {
								t.Errorf("stream %q: got %q, want %q", stream, got, want)
							}
						}
					}
				})
			}
		}
	}
}

// TestNothingIsLeftOfLegs sends 2,000 requests through legs, of which a third are
// aborted at random moments. Then nothing may be left: no count, no room, no KV
// block, no goroutine.
func TestNothingIsLeftOfLegs(t *testing.T) {
	const requests, clients = 2000, 24
	fleets := []struct {
		name string
		g    *gateway
		body string
	}{
		{"pd", serveRoles(t, roles{prefill: 2, decode: 2}, "--", "--time-scale", "0.01"), `{"model":"sim","messages":[{"role":"user","content":"question %d"}],"stream":%v,"max_tokens":20,"ignore_eos":true}`},
		{
			"epd", serveRoles(t, roles{encode: 1, prefill: 2, decode: 1}, "--prefill-args", "--kv-lease 5s", "--", "--time-scale", "0.01"),
			`{"model":"sim","messages":[{"role":"user","content":[{"type":"text","text":"question %d"},{"type":"image_url","image_url":{"url":"` + picture + `"}}]}],"stream":%v,"max_tokens":20,"ignore_eos":true}`,
		},
	}
	for _, f := range fleets {
		t.Run(f.name, func(t *testing.T) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
			goroutines := func() float64 {
				client.CloseIdleConnections()
				return gauges(t, f.g.metrics, "go_goroutines")[""]
			}
			if err := drainBody(t.Context(), client, f.g.url, fmt.Sprintf(f.body, 0, false)); err != nil {
				t.Fatal(err)
			}
			before := settled(t, goroutines)
			var next atomic.Int64
			var wg sync.WaitGroup
			for c := range clients {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(2, uint64(c)))
					for next.Add(1) <= requests/2 {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						if rnd.IntN(3) == 0 {
							time.AfterFunc(time.Duration(rnd.Int64N(int64(20*time.Millisecond))), cancel)
						}
						err := drainBody(ctx, client, f.g.url, fmt.Sprintf(f.body, rnd.IntN(1000), rnd.IntN(2) == 0))
						if err != nil && !errors.Is(err, context.Canceled) {
							t.Errorf("request: %v", err)
						}
						cancel()
					}
				})
			}
			wg.Wait()
			for _, name := range []string{"smg_worker_requests_active", "smg_selector_requests_active", "smg_bootstrap_rooms_active"} {
				await(t, name+" to fall to 0", func() bool {
					values := gauges(t, f.g.metrics, name)
					for _, v := range values {
						if v != 0 {
							return false
						}
					}
					return len(values) > 0
				})
			}
			for _, e := range f.g.engines {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if l, err := simctl.NewClient(e, nil).WaitIdle(ctx); err != nil {
					t.Errorf("engine %s still holds %+v: %v", e, l, err)
				}
				cancel()
			}
			http.DefaultClient.CloseIdleConnections()
			await(t, fmt.Sprintf("the goroutines to be %v again", before), func() bool { return goroutines() <= before })
		})
	}
}

// TestDisagg holds what a wrong bootstrap address does to a request.
func TestDisagg(t *testing.T) {
	t.Run("PD_bootstrap_address_of_nobody", func(t *testing.T) {
		dead := port(t)
		p := start(t, "smg-sim", "--port", "0", "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", "0", "--time-scale", "0")
		prefill := p.says(`listening on (http://\S+?),`)[1]
		d := start(t, "smg-sim", "--port", "0", "--disaggregation-mode", "decode", "--time-scale", "0")
		decode := d.says(`listening on (http://\S+)`)[1]
		g := start(t, "smg", "launch", "--pd-disaggregation", "--prefill", prefill, strconv.Itoa(dead), "--decode", decode, "--host", "127.0.0.1",
			"--port", strconv.Itoa(port(t)), "--prometheus-host", "127.0.0.1", "--prometheus-port", "0", "--disable-retries")
		g.says("^ready ")
		url := g.says(`^api +(http://\S+)`)[1]
		_, err := ask(t.Context(), url+"/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"hi"}]}`)
		if err == nil || !strings.Contains(err.Error(), "decode_internal_error") || !strings.Contains(err.Error(), strconv.Itoa(dead)) {
			t.Errorf("got %v, want an error of the decode leg that names the address", err)
		}
		g.stop(0)
	})
}
