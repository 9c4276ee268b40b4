package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
)

// paths are all routes of inference, with a body each, and who shares its work.
var paths = []struct {
	path, engine string // the engine's own path, "" for the same
	body         string
	streams      bool
	sglang, vllm bool // whether prefill and decode share it
}{
	{path: chatPath, body: `{"model":"sim","messages":[{"role":"user","content":"Hello"}],"max_tokens":5%s}`, streams: true, sglang: true, vllm: true},
	{path: "/v1/completions", body: `{"model":"sim","prompt":"Hello","max_tokens":5%s}`, streams: true, sglang: true, vllm: true},
	{path: "/generate", body: `{"text":"Hello","sampling_params":{"max_new_tokens":5}%s}`, streams: true, sglang: true},
	{path: "/v1/messages", body: `{"model":"sim","system":"Be kind.","messages":[{"role":"user","content":"Hello"}],"max_tokens":5%s}`, streams: true, sglang: true, vllm: true},
	{path: responsesPath, body: `{"model":"sim","instructions":"Be kind.","input":"Hello","max_output_tokens":5%s}`, streams: true, sglang: true, vllm: true},
	{path: "/v1/rerank", body: `{"query":"Hello","documents":["a","b"]%s}`, sglang: true},
	{path: "/rerank", engine: "/v1/rerank", body: `{"model":"sim","query":"Hello","documents":["a","b"]%s}`, sglang: true},
	{path: "/v1/embeddings", body: `{"model":"sim","input":"Hello"%s}`},
	{path: "/v1/classify", body: `{"model":"sim","input":"Hello"%s}`},
}

const responsesPath = "/v1/responses"

// TestFieldRoutes sees that every route is either shared by a prefill and a decode
// engine or refused before an engine hears of it, and that none runs on decode alone.
func TestFieldRoutes(t *testing.T) {
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			parallel(t)
			var rows []row
			for _, p := range paths {
				name := "PD-07_" + strings.ReplaceAll(strings.Trim(p.path, "/"), "/", "_")
				if shared := kind == simhttp.SGLang && p.sglang || kind == simhttp.VLLM && p.vllm; !shared {
					rows = append(rows, row{name + "_is_refused", func(t *testing.T, f *legFleet) {
						f.fails(t, do(t, http.MethodPost, f.url+p.path, fmt.Sprintf(p.body, "")), http.StatusNotImplemented, "pd_not_supported", "POST "+p.path)
						f.nobodySaw(t)
						f.charges(t)
					}})
					continue
				}
				rows = append(rows, row{name, func(t *testing.T, f *legFleet) { f.shares(t, p.path, p.engine, fmt.Sprintf(p.body, "")) }})
				if p.streams {
					rows = append(rows, row{name + "_streamed", func(t *testing.T, f *legFleet) {
						f.shares(t, p.path, p.engine, fmt.Sprintf(p.body, `,"stream":true`))
					}})
				}
			}
			legs{kind: kind, roles: roles{prefill: 1, decode: 1}, args: once, charging: true}.rows(t, rows...)
		})
	}
}

// shares asks engines that refuse whatever is not for them, and wants one request at
// each of both, and the KV to go from one to the other.
func (f *legFleet) shares(t *testing.T, path, engine, body string) {
	t.Helper()
	if engine == "" {
		engine = path
	}
	received := f.received(t)
	for _, leg := range []string{"prefill", "decode"} {
		f.faults(t, leg, simctl.Faults{Strict: true})
	}
	if a := do(t, http.MethodPost, f.url+path, body); a.status != http.StatusOK || strings.Contains(a.body, `"error"`) {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	for _, leg := range []string{"prefill", "decode"} {
		if n, all := len(f.seen(t, leg, engine)), len(f.seen(t, leg, "")); n != 1 || all-f.asides(t, leg) != 1 {
			t.Errorf("%d requests at %s, want 1", n, leg)
		}
	}
	if f.received(t) == received {
		t.Error("nothing was handed over")
	}
	f.charges(t)
}

// received is how many sequences' KV has come to decode engines.
func (f *legFleet) received(t *testing.T) (n uint64) {
	t.Helper()
	for _, e := range f.pd.Decode {
		tr, err := e.Transfers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += tr.Received
	}
	return n
}

// asides are the requests that a leg has got which ask for no work.
func (f *legFleet) asides(t *testing.T, leg string) (n int) {
	t.Helper()
	for _, r := range f.seen(t, leg, "") {
		if r.Method == http.MethodGet {
			n++
		}
	}
	return n
}

// nobodySaw wants no work to have been asked for anywhere.
func (f *legFleet) nobodySaw(t *testing.T) {
	t.Helper()
	for _, leg := range []string{"encode", "prefill", "decode"} {
		if n := len(f.seen(t, leg, "")) - f.asides(t, leg); n != 0 {
			t.Errorf("%d requests at %s, want none", n, leg)
		}
	}
}

// TestDisaggBodies has bodies that are no objects, which have no place for what the
// legs are told.
func TestDisaggBodies(t *testing.T) {
	parallel(t)
	var rows []row
	for _, p := range paths {
		if !p.sglang {
			continue // refused whatever the body
		}
		rows = append(rows, row{"F23_" + strings.ReplaceAll(strings.Trim(p.path, "/"), "/", "_"), func(t *testing.T, f *legFleet) {
			for _, body := range []string{`[1]`, `null`, `"text"`} {
				f.fails(t, do(t, http.MethodPost, f.url+p.path, body), http.StatusBadRequest, "serialization_failed", "must be a JSON object")
			}
			f.nobodySaw(t)
			f.charges(t)
		}})
	}
	legs{kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 1}, charging: true}.rows(t, rows...)
}
