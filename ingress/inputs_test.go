package ingress

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/ingress/body"
	"smg/wire"
	"smg/worker"
)

// reading is a gateway whose legs read the same.
func reading(t *testing.T, reads wire.Reads, change ...option) *gateway {
	t.Helper()
	_, url := answers(t, jsonOK)
	return start(t, []string{url}, append(change, withDeps(func(d *Deps) { d.Reads = func(worker.Leg) wire.Reads { return reads } }))...)
}

// asked is what the selector was asked about one request.
func (g *gateway) asked(t *testing.T, path, text string, fields ...string) wire.Select {
	t.Helper()
	if r := g.do(post(path, text, fields...)); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	ask := g.selector.lastAsk(t)
	ask.Lease, ask.Model = worker.LeaseID{}, ""
	return ask
}

func TestInputsAreWhatPoliciesRead(t *testing.T) {
	const (
		chat     = "/v1/chat/completions"
		generate = "/generate"
		hello    = `{"model":"m","messages":[{"role":"system","content":"be kind"},{"role":"user","content":"héllo"}]}`
		ids      = `{"input_ids":[5,6,7],"sampling_params":{"max_new_tokens":1}}`
	)
	tests := []struct {
		name   string
		reads  wire.Reads
		path   string
		body   string
		fields []string
		want   wire.Select
	}{
		{"nothing", 0, chat, hello, []string{"X-SMG-Target-Worker: 1", "Cookie: c"}, wire.Select{}},
		{"target", wire.ReadsKey, chat, hello, []string{"X-SMG-Target-Worker: 1"}, wire.Select{Target: "1"}},
		{"size", wire.ReadsSize, chat, hello, nil, wire.Select{Chars: 13}},
		{"text", wire.ReadsText, chat, hello, nil, wire.Select{Text: "be kind héllo", Chars: 13}},
		{"token ids", wire.ReadsText | wire.ReadsTokens, generate, ids, nil, wire.Select{TokenIDs: []uint32{5, 6, 7}, Tokens: 3}},
		{"how many tokens is always told", 0, generate, ids, nil, wire.Select{Tokens: 3}},
		{"how many tokens is the size", wire.ReadsSize, generate, ids, nil, wire.Select{Tokens: 3}},
		{"a hint stands for all", wire.ReadsText | wire.ReadsTokens, chat, hello, []string{"X-SMG-Routing-Tokens: 1,2"}, wire.Select{TokenIDs: []uint32{1, 2}, Tokens: 2}},
		{"a hint before token ids", wire.ReadsTokens, generate, ids, []string{"X-SMG-Routing-Tokens: 1,2"}, wire.Select{TokenIDs: []uint32{1, 2}, Tokens: 2}},
		{"a bad hint is none", wire.ReadsText | wire.ReadsTokens, chat, hello, []string{"X-SMG-Routing-Tokens: 1, 2"}, wire.Select{Text: "be kind héllo", Chars: 13}},
		{"rid only with sticky sessions", wire.ReadsKey, generate, `{"text":"x","rid":"conv_t1"}`, nil, wire.Select{}},
		{"rid", wire.ReadsConversationKey, generate, `{"text":"x","rid":"conv_t1"}`, nil, wire.Select{Keys: worker.Keys{RID: worker.HashKey("conv")}}},
		{"first of the rids", wire.ReadsConversationKey, generate, `{"text":["x","y"],"rid":["conv_t1","b"]}`, nil, wire.Select{Keys: worker.Keys{RID: worker.HashKey("conv")}}},
		{
			"conversation", wire.ReadsConversationKey, chat, hello,
			[]string{"X-SMG-Routing-Key: conv_t2_r1"},
			wire.Select{Keys: worker.Keys{Header: worker.HashKey("conv_t2_r1"), Conversation: worker.HashKey("conv")}},
		},
		{
			"an endless rid leaves it to the header", wire.ReadsConversationKey, generate, `{"text":"x","rid":"` + strings.Repeat("k", 200) + `_t1"}`,
			[]string{"X-SMG-Routing-Key: k"},
			wire.Select{Keys: worker.Keys{Header: worker.HashKey("k"), Conversation: worker.HashKey("k")}},
		},
		{
			"the key of policy manual has no limit", wire.ReadsPinnedKey, chat, hello,
			[]string{"X-SMG-Routing-Key: " + strings.Repeat("k", 500)},
			wire.Select{Keys: worker.Keys{Pinned: worker.HashKey(strings.Repeat("k", 500))}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := reading(t, tt.reads)
			if diff := cmp.Diff(tt.want, g.asked(t, tt.path, tt.body, tt.fields...)); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// routingCases are numbered cases of the policies that the API decides.
func routingCases(t *testing.T) {
	const hello = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	t.Run("ST-2_headers_in_order", func(t *testing.T) {
		g := reading(t, wire.ReadsKey|wire.ReadsConversationKey, withConfig(func(c *Config) { c.RoutingKeyHeaders = []string{"x-routing-key", "x-smg-routing-key"} }))
		for _, tt := range []struct {
			name   string
			fields []string
			want   string
		}{
			{"both", []string{"X-SMG-Routing-Key: second", "X-Routing-Key: first"}, "first"},
			{"the first is too long", []string{"X-SMG-Routing-Key: second", "X-Routing-Key: " + strings.Repeat("k", 129)}, "second"},
			{"one that is not listed", []string{"X-Other-Key: other"}, ""},
		} {
			want := worker.Keys{}
			if tt.want != "" {
				want = worker.Keys{Header: worker.HashKey(tt.want), Conversation: worker.HashKey(tt.want)}
			}
			if got := g.asked(t, "/v1/chat/completions", hello, tt.fields...).Keys; got != want {
				t.Errorf("%s: got %+v, want %+v", tt.name, got, want)
			}
		}
	})
	t.Run("CA-29_partitions_of_bodies", func(t *testing.T) {
		g := reading(t, wire.ReadsText)
		namespaces := map[uint64]string{}
		for _, field := range []string{"", `,"cache_salt":"A"`, `,"cache_salt":"B"`, `,"extra_key":"A"`, `,"lora_path":"A"`} {
			text := `{"model":"m"` + field + `,"messages":[{"role":"user","content":"hello"}]}`
			ns := g.asked(t, "/v1/chat/completions", text).Namespace
			if other, taken := namespaces[ns]; taken {
				t.Errorf("%q and %q share a partition", field, other)
			}
			namespaces[ns] = field
			if again := g.asked(t, "/v1/chat/completions", text).Namespace; again != ns {
				t.Errorf("%q: partition %d, then %d", field, ns, again)
			}
		}
		if namespaces[0] != "" {
			t.Errorf("%q has no partition", namespaces[0])
		}
	})
}

// A text that is longer than what is looked at is cut between two characters, and its
// length told.
func TestLongTextsAreCut(t *testing.T) {
	g := reading(t, wire.ReadsText)
	const n = 100_000
	ask := g.asked(t, "/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, strings.Repeat("🌊", n)))
	if ask.Chars != n || len(ask.Text) != wire.MaxText || ask.Text != strings.Repeat("🌊", wire.MaxText/4) {
		t.Errorf("%d bytes of text, %d characters; want %d and %d", len(ask.Text), ask.Chars, wire.MaxText, n)
	}
	if body.MaxText != wire.MaxText || body.MaxTokens != wire.MaxTokenIDs {
		t.Error("what is looked at is not what travels")
	}
}

// The legs of a disaggregated request are told what they read, and no hint counts.
func TestLegsAreToldWhatTheyRead(t *testing.T) {
	reads := map[worker.Leg]wire.Reads{worker.Prefill: wire.ReadsText | wire.ReadsTokens, worker.Decode: wire.ReadsSize}
	s := &Server{
		reads:      func(l worker.Leg) wire.Reads { return reads[l] },
		inputRooms: sync.Pool{New: func() any { return new(room) }},
	}
	b, err := body.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`), body.DefaultMaxDepth)
	if err != nil {
		t.Fatal(err)
	}
	q := &query{body: b, route: s.routeTable()[chatPath]}
	s.gather(PD, q, http.Header{tokenHint: {"1,2"}})
	for leg, want := range map[worker.Leg]wire.Select{
		worker.Prefill: {Text: "hello", Chars: 5},
		worker.Decode:  {Chars: 5},
	} {
		var ask wire.Select
		q.fill(&ask, reads[leg])
		if diff := cmp.Diff(want, ask); diff != "" {
			t.Errorf("the %s leg was asked (-want +got):\n%s", leg, diff)
		}
	}
	s.scatter(q)
	if q.inputs.text != "" || q.inputs.room != nil {
		t.Error("the request keeps the memory that it gave back")
	}
}
