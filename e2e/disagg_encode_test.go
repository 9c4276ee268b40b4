package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// drawing is a picture like no other with the same number is not.
func drawing(n int) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "picture %d", n))
}

// showing is a chat with a text and pictures.
func showing(urls ...string) string {
	parts := []string{`{"type":"text","text":"What is it?"}`}
	for _, u := range urls {
		parts = append(parts, fmt.Sprintf(`{"type":"image_url","image_url":{"url":%q}}`, u))
	}
	return `{"model":"sim","max_tokens":5,"messages":[{"role":"user","content":[` + strings.Join(parts, ",") + `]}]}`
}

// showingMessages is the same as one of Anthropic's messages.
func showingMessages(urls ...string) string {
	blocks := []string{`{"type":"text","text":"What is it?"}`}
	for _, u := range urls {
		kind, data, _ := strings.Cut(strings.TrimPrefix(u, "data:"), ";base64,")
		blocks = append(blocks, fmt.Sprintf(`{"type":"image","source":{"type":"base64","media_type":%q,"data":%q}}`, kind, data))
	}
	return `{"model":"sim","max_tokens":5,"messages":[{"role":"user","content":[` + strings.Join(blocks, ",") + `]}]}`
}

// encoding is a fleet with encoders, of which prefill needs all embeddings.
func encoding(encode int, args ...string) legs {
	return legs{
		kind: simhttp.VLLM, roles: roles{encode: encode, prefill: 1, decode: 1}, args: args, charging: true,
		cfg: func(c *simhttp.Config) { c.Disagg.ECStrict = true },
	}
}

// TestDisaggEncode holds what concerns the encode leg of the failure matrix, and item
// 11 of the conformance list.
func TestDisaggEncode(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		parallel(t)
		encoding(1, once...).rows(t,
			row{"F21_an_encoder_is_gone", func(t *testing.T, f *legFleet) {
				f.faults(t, "encode", simctl.Faults{Refuse: true})
				f.encodeFails(t, http.StatusBadGateway, "encode_request_failed", "encode worker "+f.pd.Encode[0].URL)
				f.charges(t, "encode 0")
			}},
			row{"F21_an_encoder_answers_500", func(t *testing.T, f *legFleet) {
				f.refuses(t, "encode", chatPath, http.StatusInternalServerError)
				f.encodeFails(t, http.StatusInternalServerError, "encode_upstream_error", "no, thanks")
				f.charges(t, "encode 0")
			}},
			row{"F21_an_encoder_answers_400", func(t *testing.T, f *legFleet) {
				f.refuses(t, "encode", chatPath, http.StatusBadRequest)
				f.encodeFails(t, http.StatusBadRequest, "encode_upstream_error", "no, thanks")
				f.charges(t)
			}},
			row{"F21_an_encoder_breaks_off", func(t *testing.T, f *legFleet) {
				cut := 10
				f.faults(t, "encode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, CutBody: &cut}}})
				f.encodeFails(t, http.StatusBadGateway, "encode_request_failed", "broke off")
				f.charges(t, "encode 0")
			}},
			row{"F22_no_encoder", func(t *testing.T, f *legFleet) {
				f.without(t, "encode")
				f.fails(t, do(t, http.MethodPost, f.url+chatPath, showing(drawing(1))), http.StatusServiceUnavailable, "no_available_workers", "no encode worker")
				f.nobodySaw(t)
				f.charges(t)
			}},
			row{"11_text_needs_no_encoder", func(t *testing.T, f *legFleet) {
				f.without(t, "encode")
				for _, body := range []string{chatWith(""), showing()} {
					if a := do(t, http.MethodPost, f.url+chatPath, body); a.status != http.StatusOK {
						t.Errorf("status %d: %s", a.status, a.body)
					}
				}
			}},
			row{"11_types_and_order", func(t *testing.T, f *legFleet) { f.primes(t) }},
		)
	})
	t.Run("fallback", func(t *testing.T) {
		parallel(t)
		l := encoding(1, append([]string{"--encode-fallback", "prefill"}, once...)...)
		l.cfg = nil
		l.rows(t, row{"F22_prefill_encodes_what_it_takes", func(t *testing.T, f *legFleet) { f.fallsBack(t) }})
	})
	t.Run("hurried", func(t *testing.T) {
		parallel(t)
		encoding(1, "--request-timeout-secs", "1").rows(t, row{"F21_an_encoder_says_nothing", func(t *testing.T, f *legFleet) {
			f.faults(t, "encode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Hold: true}}})
			f.encodeFails(t, http.StatusGatewayTimeout, "request_timeout")
			f.closedWithin(t, "encode", chatPath, 5*time.Second)
			if n := len(f.seen(t, "encode", chatPath)); n != 1 {
				t.Errorf("%d primers, want 1", n)
			}
			f.charges(t, "encode 0")
		}})
	})
	t.Run("sglang", func(t *testing.T) {
		parallel(t)
		l := legs{kind: simhttp.SGLang, roles: roles{encode: 2, prefill: 1, decode: 1}, args: once, charging: true}
		l.cfg = func(c *simhttp.Config) { c.Disagg.EncoderTimeout = time.Second }
		l.rows(t,
			row{"11_prefill_asks_encoders_itself", func(t *testing.T, f *legFleet) { f.servesSelf(t) }},
			row{"11_the_gateway_need_not_know_them", func(t *testing.T, f *legFleet) {
				f.without(t, "encode")
				f.servesSelf(t)
			}},
			row{"11_encoders_that_fail_are_prefills_failure", func(t *testing.T, f *legFleet) {
				f.faults(t, "encode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: "/encode"}, Status: http.StatusServiceUnavailable}}})
				f.fails(t, do(t, http.MethodPost, f.url+chatPath, showing(drawing(1))), http.StatusRequestTimeout, "prefill_upstream_error", "Timeout waiting for image embedding")
				f.charges(t, "prefill 0")
			}},
		)
	})
	t.Run("many", func(t *testing.T) {
		parallel(t)
		encoding(3).rows(t,
			row{"F21_another_encoder_is_tried", func(t *testing.T, f *legFleet) {
				asked := do(t, http.MethodPost, f.url+chatPath, showing(drawing(1)))
				first := f.encoderOf(t, drawing(1))
				if err := f.pd.Encode[first].SetFaults(t.Context(), simctl.Faults{Record: true, Rules: []simctl.Rule{{Status: http.StatusInternalServerError}}}); err != nil {
					t.Fatal(err)
				}
				again := do(t, http.MethodPost, f.url+chatPath, strings.Replace(showing(drawing(1)), "What", "Who", 1))
				if asked.status != http.StatusOK || again.status != http.StatusOK {
					t.Errorf("%+v, %+v", asked, again)
				}
				if n := len(f.seen(t, "encode", chatPath)); n != 3 {
					t.Errorf("%d primers, want 3", n)
				}
				f.charges(t, fmt.Sprintf("encode %d", first))
			}},
			row{"11_one_failure_ends_all", func(t *testing.T, f *legFleet) {
				f.faults(t, "encode", simctl.Faults{Rules: []simctl.Rule{
					{Match: simctl.Match{Contains: strings.TrimPrefix(drawing(1), "data:image/png;base64,")}, Delay: simctl.Duration(100 * time.Millisecond), Status: http.StatusBadRequest},
					{Match: simctl.Match{Path: chatPath}, Hold: true},
				}})
				f.encodeFailsOf(t, showing(drawing(0), drawing(1), drawing(2)), http.StatusBadRequest, "encode_upstream_error")
				await(t, "the other primers to be left", func() bool {
					closed := 0
					for _, r := range f.seen(t, "encode", chatPath) {
						if !r.CallerClosed.IsZero() {
							closed++
						}
					}
					return closed == 2
				})
				f.charges(t)
			}},
			row{"11_same_content_same_encoder", func(t *testing.T, f *legFleet) { f.agrees(t) }},
		)
	})
}

// servesSelf asks about pictures, of whose encoding the gateway must keep out.
func (f *legFleet) servesSelf(t *testing.T) {
	t.Helper()
	encoded := func() (n uint64) {
		for _, e := range f.pd.Encode {
			tr, err := e.Transfers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += tr.Encoded
		}
		return n
	}
	before, hits := encoded(), f.pd.Prefill[0]
	for n := range 3 {
		a := do(t, http.MethodPost, f.url+chatPath, showing(drawing(n), drawing(n+100)))
		if a.status != http.StatusOK {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	}
	if tr, err := hits.Transfers(t.Context()); err != nil || tr.EmbeddingHits < 6 || tr.EmbeddingMisses != 0 {
		t.Errorf("prefill: %+v, %v", tr, err)
	}
	if encoded() == before {
		t.Error("encoders have encoded nothing")
	}
	for _, r := range f.seen(t, "encode", "") {
		if r.Path == chatPath || r.Header.Get("X-Request-Id") != "" {
			t.Errorf("the gateway has asked an encoder: %+v", r)
		}
	}
	f.charges(t)
}

// fallsBack takes the encoders away from a gateway that may fall back on prefill.
func (f *legFleet) fallsBack(t *testing.T) {
	t.Helper()
	lacks := func(body string) {
		t.Helper()
		f.fails(t, do(t, http.MethodPost, f.url+chatPath, body), http.StatusServiceUnavailable, "no_available_workers", "no encode worker")
	}
	const video = `{"model":"sim","max_tokens":5,"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"http://media.invalid/a.mp4"}}]}]}`
	f.without(t, "encode")
	lacks(showing(drawing(1))) // prefill has not said what it takes
	f.nobodySaw(t)
	prefill := f.pd.Prefill[0]
	f.without(t, "prefill")
	f.add(prefill.URL, `,"worker_type":"prefill","labels":{"accepted_media":"image, audio"}`)
	var a answer
	await(t, "prefill to be back", func() bool {
		a = do(t, http.MethodPost, f.url+chatPath, showing(drawing(1)))
		return a.status == http.StatusOK
	})
	f.says("media go to prefill workers")
	if n := total(t, f.metrics, "smg_pd_encode_fallback_total"); n < 1 {
		t.Errorf("%v fallbacks are counted", n)
	}
	if tr, err := prefill.Transfers(t.Context()); err != nil || tr.Encoded == 0 {
		t.Errorf("prefill: %+v, %v", tr, err)
	}
	lacks(video)
	f.join("encode", f.pd.Encode[0])
	f.usable(t)
	await(t, "an encoder to be asked again", func() bool {
		a = do(t, http.MethodPost, f.url+chatPath, showing(drawing(2)))
		return a.status == http.StatusOK && len(f.seen(t, "encode", chatPath)) > 0
	})
	f.says("media go to encode workers again")
}

// encodeFails asks about a picture, and wants it to fail at once, with nobody but
// encoders having been asked.
func (f *legFleet) encodeFails(t *testing.T, status int, code string, words ...string) {
	t.Helper()
	f.encodeFailsOf(t, showing(drawing(1)), status, code, words...)
}

func (f *legFleet) encodeFailsOf(t *testing.T, body string, status int, code string, words ...string) {
	t.Helper()
	begin := time.Now()
	f.fails(t, do(t, http.MethodPost, f.url+chatPath, body), status, code, words...)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	for _, leg := range []string{"prefill", "decode"} {
		if n := len(f.seen(t, leg, chatPath)); n != 0 {
			t.Errorf("%d requests at %s, want none", n, leg)
		}
	}
}

// encoderOf is the only encoder that has got a primer with a URL.
func (f *legFleet) encoderOf(t *testing.T, url string) int {
	t.Helper()
	found := -1
	for i, e := range f.pd.Encode {
		records, err := e.Records(t.Context(), chatPath)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if !strings.Contains(string(r.Body), url) {
				continue
			}
			if found >= 0 && found != i {
				t.Errorf("encoders %d and %d have got %s", found, i, url)
			}
			found = i
		}
	}
	if found < 0 {
		t.Fatalf("no encoder has got %s", url)
	}
	return found
}

// primes asks about media of all types in both APIs, and looks at each primer.
func (f *legFleet) primes(t *testing.T) {
	t.Helper()
	for _, leg := range []string{"encode", "prefill", "decode"} {
		f.faults(t, leg, simctl.Faults{Strict: true})
	}
	sound := base64.StdEncoding.EncodeToString([]byte("a sound"))
	parts := []string{
		`{"type":"image_url","image_url":{"url":"` + drawing(1) + `","detail":"low"}}`,
		`{"type":"video_url","video_url":{"url":"http://media.invalid/a.mp4"}}`,
		`{"type":"audio_url","audio_url":{"url":"http://media.invalid/a.wav"}}`,
		`{"type":"input_audio","input_audio":{"data":"` + sound + `","format":"wav"}}`,
		`{"type":"image_url","image_url":{"url":"` + drawing(1) + `"}}`,
	}
	chat := `{"model":"sim","max_tokens":5,"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"f"}}],` +
		`"mm_processor_kwargs":{"size":12345678901234567890},"stop":["x"],"kv_transfer_params":{"remote_host":"evil"},"messages":[` +
		`{"role":"system","content":[` + parts[0] + `]},{"role":"assistant","content":[` + parts[2] + `]},{"role":"user","content":[` + strings.Join(parts[1:], ",") + `,{"type":"text","text":"What is it?"}]}]}`
	a := do(t, http.MethodPost, f.url+chatPath, chat, "X-Request-Id", "mine")
	if a.status != http.StatusOK || strings.Contains(a.body, `"error"`) {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	want := map[string]string{}
	for i, p := range parts {
		want[fmt.Sprintf("mine-0-enc-%d", i)] = `{"model":"sim","messages":[{"role":"user","content":[` + p + `]}],"max_tokens":1,"stream":false,"mm_processor_kwargs":{"size":12345678901234567890}}`
	}
	f.primed(t, want)

	f.faults(t, "encode", simctl.Faults{Strict: true}) // forgets nothing
	messages := `{"model":"sim","max_tokens":5,"system":"Be brief.","thinking":{"type":"disabled"},"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[]},` +
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + strings.TrimPrefix(drawing(2), "data:image/png;base64,") + `"}},` +
		`{"type":"image","source":{"type":"url","url":"http://media.invalid/b.png"}}]}]}`
	a = do(t, http.MethodPost, f.url+"/v1/messages", messages, "X-Request-Id", "other")
	if a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	for i, url := range []string{drawing(2), "http://media.invalid/b.png"} {
		want[fmt.Sprintf("other-0-enc-%d", i)] = `{"model":"sim","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + url + `"}}]}],"max_tokens":1,"stream":false}`
	}
	f.primed(t, want)
	for _, e := range f.pd.Prefill {
		if tr, err := e.Transfers(t.Context()); err != nil || tr.EmbeddingMisses != 0 {
			t.Errorf("prefill: %+v, %v", tr, err)
		}
	}
	f.charges(t)
}

// primed wants these primers to have come, by their request ids, and no others.
func (f *legFleet) primed(t *testing.T, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, r := range f.seen(t, "encode", chatPath) {
		if !json.Valid(r.Body) {
			t.Errorf("%s is no JSON", r.Body)
		}
		got[r.Header.Get("X-Request-Id")] = string(r.Body)
	}
	for id, body := range want {
		if got[id] != body {
			t.Errorf("primer %s:\n got %s\nwant %s", id, got[id], body)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d primers, want %d", len(got), len(want))
	}
}

// agrees has a second gateway before the same engines, which has to send each picture
// where the first one does, whatever API it comes by.
func (f *legFleet) agrees(t *testing.T) {
	t.Helper()
	other := &legFleet{legs: f.legs, pd: f.pd}
	other.gateway = inFront(t, "--epd-disaggregation", "--policy", "round_robin")
	other.t = t
	other.each(func(leg, _ string, e *simtest.Engine) { other.join(leg, e) })
	other.usable(t)
	used := map[int]bool{}
	for n := range 12 {
		for _, ask := range []answer{
			do(t, http.MethodPost, f.url+chatPath, showing(drawing(n), drawing(n))),
			do(t, http.MethodPost, other.url+"/v1/messages", showingMessages(drawing(n))),
		} {
			if ask.status != http.StatusOK {
				t.Fatalf("status %d: %s", ask.status, ask.body)
			}
		}
		used[f.encoderOf(t, drawing(n))] = true
	}
	if len(used) < 2 {
		t.Errorf("only %d encoders are used", len(used))
	}
	other.stop(0)
}
