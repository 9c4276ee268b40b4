package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

const (
	completionsPath = "/v1/completions"
	generatePath    = "/generate"
)

// TestDisaggConformanceAnswers is what legs are told, and what becomes of their answers:
// rows of the failure matrix, reports from the field, and items of the conformance list.
func TestDisaggConformanceAnswers(t *testing.T) {
	fleet := legs{kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 1}, args: once, charging: true}
	t.Run("sglang", func(t *testing.T) {
		parallel(t)
		fleet.rows(t, slices.Concat(brokenAnswers(), sglangRooms(), sglangEnds(), sglangLogprobs())...)
	})
	t.Run("split", func(t *testing.T) {
		parallel(t)
		fleet := fleet
		fleet.args = slices.Concat(once, []string{"--pd-n-mode", "split"})
		fleet.cfg = func(c *simhttp.Config) { c.Disagg.RefuseLists = true }
		fleet.rows(t, row{"1_answers_that_are_split", splitAnswers})
	})
	t.Run("vllm", func(t *testing.T) {
		parallel(t)
		fleet := fleet
		fleet.kind = simhttp.VLLM
		fleet.rows(t, slices.Concat(brokenAnswers(),
			[]row{{"2_fields_of_clients", clientFields}, {"PD-17_cached_tokens_are_prefills", cachedTokens}})...)
	})
}

// rule has a leg's inference requests meet a fault.
func (f *legFleet) rule(t *testing.T, leg string, r simctl.Rule) {
	t.Helper()
	r.Match.Method = http.MethodPost
	f.faults(t, leg, simctl.Faults{Rules: []simctl.Rule{r}})
}

func brokenAnswers() []row {
	few, none := 3, 0
	return []row{
		{"F11_decode_breaks_in_a_stream", func(t *testing.T, f *legFleet) {
			f.rule(t, "decode", simctl.Rule{Stream: &simctl.StreamFault{CutAfter: &few}})
			a := f.asks(t, `,"stream":true`)
			events := strings.Split(strings.TrimSuffix(a.body, "\n\n"), "\n\n")
			if a.status != http.StatusOK || len(events) != few+1 || strings.Contains(a.body, "[DONE]") ||
				!strings.HasPrefix(events[few], `data: {"error":{"type":"Bad Gateway","code":"decode_stream_error","message":`) || !strings.HasSuffix(events[few], `,"param":null}}`) {
				t.Errorf("status %d: %q", a.status, a.body)
			}
			f.charges(t, "decode 0")
		}},
		{"F11_decode_breaks_before_its_first_event", func(t *testing.T, f *legFleet) {
			f.rule(t, "decode", simctl.Rule{Stream: &simctl.StreamFault{CutAfter: &none}})
			f.fails(t, f.asks(t, `,"stream":true`), http.StatusBadGateway, "decode_read_failed")
			f.charges(t, "decode 0")
		}},
		{"F11_decode_breaks_in_an_answer", func(t *testing.T, f *legFleet) {
			part := 40
			f.rule(t, "decode", simctl.Rule{CutBody: &part})
			f.fails(t, f.asks(t, ""), http.StatusBadGateway, "decode_read_failed", f.pd.Decode[0].URL)
			f.charges(t, "decode 0")
		}},
	}
}

// sglangEnds are ends of streams.
func sglangEnds() []row {
	closed := func(name string, done simctl.Done, end string) row {
		return row{name, func(t *testing.T, f *legFleet) {
			f.rule(t, "decode", simctl.Rule{Stream: &simctl.StreamFault{Done: done, SplitPause: simctl.Duration(30 * time.Millisecond)}})
			begun := time.Now()
			a := f.asks(t, `,"stream":true`)
			if a.status != http.StatusOK || !strings.HasSuffix(a.body, end) || strings.Contains(a.body, `{"error"`) {
				t.Errorf("status %d: %q", a.status, a.body)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			f.charges(t)
		}}
	}
	fails := func(name, leg, path, body string) row {
		return row{name, func(t *testing.T, f *legFleet) {
			none := 0
			// Decode says nothing before prefill has failed.
			f.rule(t, "decode", simctl.Rule{Stream: &simctl.StreamFault{Gap: simctl.Duration(time.Second)}})
			f.rule(t, leg, simctl.Rule{Stream: &simctl.StreamFault{FailAfter: &none}})
			a := do(t, http.MethodPost, f.url+path, body)
			f.fails5(t, a, leg)
			f.charges(t, leg+" 0")
		}}
	}
	generate := `{"text":"Hello","stream":true,"sampling_params":{"max_new_tokens":5}}`
	return []row{
		closed("5_done_ends_the_answer", simctl.DoneOpen, "\n\ndata: [DONE]\n\n"),
		closed("5_done_with_crlf_and_then_open", simctl.DoneCRLF, "\n\ndata: [DONE]\r\n\r\n"),
		closed("5_done_in_two_pieces", simctl.DoneSplit, "\n\ndata: [DONE]\n\n"),
		closed("5_done_in_a_payload_and_in_a_line", simctl.DoneQuoted, `data: [DONE]\r\n\r\n"}`+"\n\n: data: [DONE]\n\ndata: [DONE]\n\n"),
		closed("5_done_never", simctl.DoneNever, "\n\n"),
		fails("5_prefill_fails_in_its_stream", "prefill", chatPath, chatWith(`,"stream":true`)),
		fails("5_decode_fails_in_its_stream", "decode", chatPath, chatWith(`,"stream":true`)),
		fails("5_prefill_fails_in_generate", "prefill", generatePath, generate),
		fails("5_decode_fails_in_generate", "decode", generatePath, generate),
	}
}

// fails5 wants the words of an engine that was told to fail, whatever the form.
func (f *legFleet) fails5(t *testing.T, a answer, leg string) {
	t.Helper()
	if a.status != http.StatusInternalServerError || a.header.Get("X-Smg-Error-Code") != leg+"_internal_error" || !strings.Contains(a.body, "as it was told to") {
		t.Errorf("status %d, code %q: %s", a.status, a.header.Get("X-Smg-Error-Code"), a.body)
	}
}

// joined is what a request to an SGLang engine says of its rooms, as it is written.
type joined struct {
	Host json.RawMessage `json:"bootstrap_host"`
	Port json.RawMessage `json:"bootstrap_port"`
	Room json.RawMessage `json:"bootstrap_room"`
}

// rooms are those that a leg was told of.
func (f *legFleet) rooms(t *testing.T, leg, path string) (all []joined) {
	t.Helper()
	for _, r := range f.seen(t, leg, path) {
		var j joined
		if err := json.Unmarshal(r.Body, &j); err != nil {
			t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

// one wants one request at each leg, with the same rooms: a list of n, or one if n is 0.
func (f *legFleet) one(t *testing.T, path string, n int, port string) joined {
	t.Helper()
	p, d := f.rooms(t, "prefill", path), f.rooms(t, "decode", path)
	if len(p) != 1 || len(d) != 1 || string(p[0].Host)+string(p[0].Port)+string(p[0].Room) != string(d[0].Host)+string(d[0].Port)+string(d[0].Room) {
		t.Fatalf("prefill was told %s, decode %s", p, d)
	}
	host := strconv.Quote(f.pd.Prefill[0].PeerHost)
	for _, field := range []struct {
		raw  json.RawMessage
		want string
	}{{p[0].Host, host}, {p[0].Port, port}, {p[0].Room, ""}} {
		list := []json.RawMessage{field.raw}
		if n > 0 {
			list = nil
			if err := json.Unmarshal(field.raw, &list); err != nil || len(list) != n {
				t.Fatalf("%s is no list of %d", field.raw, n)
			}
		}
		seen := map[string]bool{}
		for _, v := range list {
			if field.want != "" && string(v) != field.want {
				t.Errorf("%s, want %s", v, field.want)
			}
			if _, err := strconv.ParseUint(string(v), 10, 63); field.want == "" && (err != nil || seen[string(v)]) {
				t.Errorf("%s is no room of its own", v)
			}
			seen[string(v)] = true
		}
	}
	return p[0]
}

func (f *legFleet) port() string { return strconv.Itoa(f.pd.Prefill[0].PeerPort) }

// sglangRooms are rows about what the legs are told.
func sglangRooms() []row {
	table := func(name, path, body string, n int) row {
		return row{"1_" + name, func(t *testing.T, f *legFleet) {
			if a := do(t, http.MethodPost, f.url+path, body); a.status != http.StatusOK {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			f.one(t, path, n, f.port())
		}}
	}
	const few = `,"max_tokens":2}`
	rows := []row{
		table("chat", chatPath, chatWith(""), 0),
		table("chat_of_one", chatPath, chatWith(`,"n":1`), 0),
		table("chat_of_three", chatPath, chatWith(`,"n":3`), 3),
		table("completions_of_a_text", completionsPath, `{"model":"sim","prompt":"Hi","n":4`+few, 0),
		table("completions_of_a_list_of_one", completionsPath, `{"model":"sim","prompt":["Hi"]`+few, 1),
		table("completions_of_three", completionsPath, `{"model":"sim","prompt":["a","b","c"],"n":2`+few, 3),
		table("generate", generatePath, `{"text":"Hi","sampling_params":{"max_new_tokens":2}}`, 0),
		table("generate_of_ids", generatePath, `{"input_ids":[[5,6],[7]],"sampling_params":{"max_new_tokens":2}}`, 2),
		{"1_null_port", nullPort},
		{"1_rooms_of_requests_differ", func(t *testing.T, f *legFleet) {
			f.asks(t, "")
			f.asks(t, "")
			if r := f.rooms(t, "decode", chatPath); len(r) != 2 || string(r[0].Room) == string(r[1].Room) {
				t.Errorf("rooms %s", r)
			}
		}},
		{"2_fields_of_clients", clientFields},
		{"PD-03_ten_thousand_rooms", manyRooms},
		{"PD-04_rooms_of_clients_count_for_nothing", func(t *testing.T, f *legFleet) {
			roomsDiffer(t, f, 50, `,"bootstrap_room":7,"bootstrap_host":"evil","bootstrap_port":1`)
			f.each(func(_, name string, e *simtest.Engine) {
				if tr, err := e.Transfers(t.Context()); err != nil || tr.DuplicateRooms != 0 {
					t.Errorf("%s counts %+v (%v), want no room twice", name, tr, err)
				}
			})
		}},
		{"F26_rooms_in_flight_differ", func(t *testing.T, f *legFleet) { roomsDiffer(t, f, 100, "") }},
		{"PD-05_a_flat_list_is_one_prompt", func(t *testing.T, f *legFleet) { batchOf(t, f, 0) }},
	}
	for _, n := range []int{1, 2, 33} {
		rows = append(rows, row{fmt.Sprintf("PD-05_%d_texts", n), func(t *testing.T, f *legFleet) { batchOf(t, f, n) }})
	}
	return rows
}

// nullPort has a prefill engine that does not tell its port: decode is told of none, and
// takes its own.
func nullPort(t *testing.T, f *legFleet) {
	e := f.pd.Prefill[0]
	f.remove(e.URL)
	await(t, "the worker's end", func() bool {
		_, status := f.worker(e.URL)
		return status == http.StatusNotFound
	})
	var rules []simctl.Rule
	for _, path := range []string{"/server_info", "/get_server_info"} {
		rules = append(rules, simctl.Rule{Match: simctl.Match{Path: path}, Status: http.StatusOK, Body: json.RawMessage(`{"disaggregation_mode":"prefill","served_model_name":"sim"}`)})
	}
	f.faults(t, "prefill", simctl.Faults{Rules: rules})
	f.add(e.URL, `,"worker_type":"prefill"`)
	f.usable(t)
	f.faults(t, "decode", simctl.Faults{})
	if a := f.asks(t, ""); a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	f.one(t, chatPath, 0, "null")
	f.faults(t, "prefill", simctl.Faults{Rules: rules}) // forgets nothing, counts anew
	if a := f.asks(t, `,"n":2`); a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	if r := f.rooms(t, "decode", chatPath); string(r[len(r)-1].Port) != "[null,null]" {
		t.Errorf("decode was told %s", r)
	}
}

// clientFields are what a client could steer engines with: they never get there.
func clientFields(t *testing.T, f *legFleet) {
	evil := `,"bootstrap\u005froom":9223372036854775807,"bootstrap_host":"evil","bootstrap_port":66,"kv_transfer_params":{"remote_host":"evil"},` +
		`"data_parallel_rank":6,"data_parallel_rank_decode":6,"routed_dp_rank":6,"disagg_prefill_dp_rank":6`
	bodies := map[string]string{chatPath: chatWith(evil), completionsPath: `{"model":"sim","prompt":"Hi","max_tokens":2` + evil + `}`}
	if f.kind == simhttp.SGLang {
		bodies[generatePath] = `{"text":"Hi","sampling_params":{"max_new_tokens":2}` + evil + `}`
	}
	for path, body := range bodies {
		if a := do(t, http.MethodPost, f.url+path, body); a.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, a.status, a.body)
		}
		for _, leg := range []string{"prefill", "decode"} {
			records := f.seen(t, leg, path)
			if len(records) != 1 {
				t.Errorf("%d requests for %s at %s, want 1", len(records), path, leg)
			}
			for _, r := range records {
				var members map[string]json.RawMessage
				if err := json.Unmarshal(r.Body, &members); err != nil {
					t.Fatal(err)
				}
				own := []string{"bootstrap_host", "bootstrap_port", "bootstrap_room"}
				if f.kind == simhttp.VLLM {
					own = []string{"kv_transfer_params"}
				}
				for _, name := range []string{
					"bootstrap_host", "bootstrap_port", "bootstrap_room", "kv_transfer_params",
					"data_parallel_rank", "data_parallel_rank_decode", "routed_dp_rank", "disagg_prefill_dp_rank",
				} {
					if _, ok := members[name]; ok != slices.Contains(own, name) {
						t.Errorf("%s at %s: %s", name, leg, r.Body)
					}
				}
				if strings.Contains(string(r.Body), "evil") || string(members["bootstrap_room"]) == "9223372036854775807" {
					t.Errorf("%s got %s", leg, r.Body)
				}
			}
		}
	}
}

// manyRooms looks at the rooms of many requests, as they are written.
func manyRooms(t *testing.T, f *legFleet) {
	const clients, each = 10, 1000
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	body := `{"model":"sim","messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				resp, err := client.Post(f.url+chatPath, "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("status %d, %v", resp.StatusCode, err)
					return
				}
			}
		})
	}
	wg.Wait()
	rooms := map[string]int{}
	for leg, at := range map[string]int{"prefill": 1, "decode": 2} {
		for _, j := range f.rooms(t, leg, chatPath) {
			room := string(j.Room)
			if n, err := strconv.ParseInt(room, 10, 64); err != nil || n < 0 || strconv.FormatInt(n, 10) != room {
				t.Fatalf("room %s at %s is no integer of 63 bits", room, leg)
			}
			rooms[room] += at
		}
	}
	if n := len(rooms); n != clients*each {
		t.Errorf("%d rooms, want %d", n, clients*each)
	}
	for room, at := range rooms {
		if at != 3 {
			t.Fatalf("room %s was not told to each leg once", room)
		}
	}
}

// roomsDiffer has requests in flight at the same time, which are all to have rooms of their
// own.
func roomsDiffer(t *testing.T, f *legFleet, n int, fields string) {
	t.Helper()
	f.faults(t, "prefill", simctl.Faults{Transfer: &simctl.TransferFault{Hold: true}})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			resp, err := open(t, http.MethodPost, f.url+chatPath, chatWith(fields))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	await(t, "all of them", func() bool {
		return total(t, f.metrics, "smg_bootstrap_rooms_active") == float64(n) && len(f.seen(t, "prefill", chatPath)) == n && len(f.seen(t, "decode", chatPath)) == n
	})
	f.faults(t, "prefill", simctl.Faults{})
	wg.Wait()
	of := func(leg string) map[string]bool {
		rooms := map[string]bool{}
		for _, j := range f.rooms(t, leg, chatPath) {
			rooms[string(j.Room)] = true
			if string(j.Host) != strconv.Quote(f.pd.Prefill[0].PeerHost) || string(j.Port) != f.port() {
				t.Errorf("%s was told of %s:%s", leg, j.Host, j.Port)
			}
		}
		return rooms
	}
	p, d := of("prefill"), of("decode")
	if len(p) != n || p["7"] || !maps.Equal(p, d) {
		t.Errorf("%d rooms at prefill, %d at decode, want the same %d", len(p), len(d), n)
	}
}

// batchOf sends n texts, or a flat list of token ids, and compares with an engine that
// does it all.
func batchOf(t *testing.T, f *legFleet, n int) {
	t.Helper()
	cfg := simtest.Config()
	whole := simtest.Start(t, cfg)
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("%d+%d=", i, i))
	}
	input, _ := json.Marshal(texts) // strings always marshal
	body := fmt.Sprintf(`{"text":%s,"sampling_params":{"max_new_tokens":8,"temperature":0}}`, input)
	if n == 0 {
		body = `{"input_ids":[11,12,13],"sampling_params":{"max_new_tokens":8,"temperature":0}}`
	}
	said := func(url string) (list []string) {
		type one struct{ Text string }
		a := do(t, http.MethodPost, url+generatePath, body)
		var answers []one
		if n == 0 {
			answers = make([]one, 1)
			if err := json.Unmarshal([]byte(a.body), &answers[0]); err != nil {
				t.Fatalf("%v: %s", err, a.body)
			}
		} else if err := json.Unmarshal([]byte(a.body), &answers); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		for _, a := range answers {
			list = append(list, a.Text)
		}
		return list
	}
	want, got := said(whole.URL), said(f.url)
	if len(want) != max(n, 1) || !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	f.one(t, generatePath, n, f.port())
}

// splitAnswers has engines that refuse lists of rooms answer a chat several times.
func splitAnswers(t *testing.T, f *legFleet) {
	for _, stream := range []string{"", `,"stream":true`} {
		a := f.asks(t, `,"n":3,"temperature":0`+stream)
		if a.status != http.StatusOK {
			t.Errorf("status %d: %s", a.status, a.body)
		}
		for i := range 3 {
			if !strings.Contains(a.body, fmt.Sprintf(`"index":%d`, i)) {
				t.Errorf("no answer %d in %s", i, a.body)
			}
		}
	}
	rooms := map[string]bool{}
	for _, j := range f.rooms(t, "decode", chatPath) {
		rooms[string(j.Room)] = true
	}
	if len(rooms) != 6 {
		t.Errorf("%d rooms for six answers", len(rooms))
	}
	f.charges(t)
}

// sglangLogprobs compares what is said of probabilities with what an engine that does it
// all says.
func sglangLogprobs() []row {
	compare := func(name, body string, reorder bool) row {
		return row{name, func(t *testing.T, f *legFleet) {
			whole := simtest.Start(t, simtest.Config())
			if reorder {
				f.rule(t, "decode", simctl.Rule{Stream: &simctl.StreamFault{Backwards: true}})
			}
			want, got := probabilities(t, do(t, http.MethodPost, whole.URL+generatePath, body)), probabilities(t, do(t, http.MethodPost, f.url+generatePath, body))
			if len(want) == 0 || !maps.Equal(want, got) {
				t.Errorf("got\n%v, want\n%v", got, want)
			}
			for index, g := range got {
				// Of the prompt from prefill, of the answer from decode.
				if !strings.Contains(g, "input_token_logprobs [[null,") || !strings.Contains(g, "input_top_logprobs [null") || !strings.Contains(g, "output_token_logprobs [[-2.000000") {
					t.Errorf("answer %s: %s", index, g)
				}
			}
		}}
	}
	asks := func(input, more string) string {
		return `{` + input + `,"return_logprob":true,"logprob_start_len":0,"top_logprobs_num":1,"token_ids_logprob":[3],"sampling_params":{"max_new_tokens":3,"temperature":0,"ignore_eos":true}` + more + `}`
	}
	one, three := `"input_ids":[[5,6,7,8,9,10]]`, `"text":["a b","c","d e f g"]`
	return []row{
		compare("6_logprobs_of_an_answer", asks(`"text":"one two three"`, ""), false),
		compare("6_logprobs_of_a_batch", asks(three, ""), false),
		compare("6_logprobs_of_a_stream", asks(`"text":"one two three"`, `,"stream":true`), false),
		{"6_logprobs_that_decode_does_not_have", func(t *testing.T, f *legFleet) {
			odd := `{"text":"x","meta_info":{"input_token_logprobs":null}}`
			f.rule(t, "decode", simctl.Rule{Match: simctl.Match{Path: generatePath}, Status: http.StatusOK, Body: json.RawMessage(odd)})
			prefill := `[{"meta_info":{"input_token_logprobs":[[-1,2,null]]}}]`
			f.rule(t, "prefill", simctl.Rule{Match: simctl.Match{Path: generatePath}, Status: http.StatusOK, Body: json.RawMessage(prefill)})
			if a := do(t, http.MethodPost, f.url+generatePath, asks(`"text":"a"`, "")); a.body != odd {
				t.Errorf("status %d: %s", a.status, a.body)
			}
		}},
		compare("PD-18_logprobs_of_six_ids", asks(one, ""), false),
		compare("PD-18_logprobs_of_three_out_of_order", asks(three, `,"stream":true`), true),
	}
}

// probabilities are what an answer of /generate says of them, the last of each index.
func probabilities(t *testing.T, a answer) map[string]string {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	type generated struct {
		Index json.RawMessage
		Meta  map[string]json.RawMessage `json:"meta_info"`
	}
	all := map[string]string{}
	note := func(index string, g generated) {
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(g.Meta)) {
			if strings.HasSuffix(k, "logprobs") {
				fmt.Fprintf(&b, "%s %s ", k, g.Meta[k])
			}
		}
		all[index] = b.String()
	}
	if strings.HasPrefix(a.body, "data: ") {
		for line := range strings.SplitSeq(a.body, "\n\n") {
			var g generated
			if raw := strings.TrimPrefix(line, "data: "); raw != "" && raw != "[DONE]" {
				if err := json.Unmarshal([]byte(raw), &g); err != nil {
					t.Fatalf("%v: %s", err, raw)
				}
				note(string(g.Index), g)
			}
		}
		return all
	}
	list := []generated{{}}
	if a.body[0] != '[' {
		if err := json.Unmarshal([]byte(a.body), &list[0]); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
	} else if err := json.Unmarshal([]byte(a.body), &list); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	for i, g := range list {
		note(strconv.Itoa(i), g)
	}
	return all
}

// cachedTokens asks the same twice: prefill finds most of the prompt the second time,
// and decode, which has fetched it, would call it all cached.
func cachedTokens(t *testing.T, f *legFleet) {
	cfg := simtest.Config()
	cfg.Kind = simhttp.VLLM
	whole := simtest.Start(t, cfg)
	streamed := `,"stream":true`
	for path, route := range map[string]struct {
		prompt, mark, stream string
		all, cached          string // the numbers, of all tokens and of those
	}{
		chatPath: {
			`"messages":[{"role":"user","content":%q}],"max_tokens":3`, `"usage":{`, streamed + `,"stream_options":{"include_usage":true}`,
			`"prompt_tokens":(\d+)`, `"cached_tokens":(\d+)`,
		},
		"/v1/messages": {
			`"messages":[{"role":"user","content":%q}],"max_tokens":3`, `"message_delta"`, streamed,
			`"input_tokens":(\d+)`, `"cache_read_input_tokens":(\d+)`,
		},
		"/v1/responses": {
			`"input":%q,"max_output_tokens":3`, `"response.completed"`, streamed,
			`"input_tokens":(\d+)`, `"cached_tokens":(\d+)`,
		},
	} {
		prompt := fmt.Sprintf(route.prompt, path+strings.Repeat(" word", 150))
		counts := func(url, more string) (cached, all int) {
			a := do(t, http.MethodPost, url+path, `{"model":"sim",`+prompt+more+`}`)
			raw := a.body
			if more != "" {
				for e := range strings.SplitSeq(a.body, "\n\n") {
					if strings.Contains(e, route.mark) {
						raw = e
					}
				}
			}
			number := func(pattern string) int {
				m := regexp.MustCompile(pattern).FindStringSubmatch(raw)
				if m == nil {
					t.Fatalf("%s: status %d: no %s in %s", path, a.status, pattern, a.body)
				}
				n, err := strconv.Atoi(m[1])
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			return number(route.cached), number(route.all)
		}
		for i, more := range []string{"", "", route.stream} {
			want, all := counts(whole.URL, more)
			got, _ := counts(f.url, more)
			if got != want || (i == 0) != (want == 0) || want >= all {
				t.Errorf("%s, request %d: %d of %d are cached, want %d", path, i, got, all, want)
			}
		}
	}
}
