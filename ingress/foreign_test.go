package ingress

import (
	"encoding/json"
	"strings"
	"testing"

	"smg/ingress/body"
)

func TestGatewayForeignFields(t *testing.T) {
	t.Run("82_bootstrap_and_transfer_fields", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url})
		for _, fields := range []string{
			`"bootstrap_host":"evil","bootstrap_port":1,"bootstrap_room":2`,
			`"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"evil"}`,
			`"bootstrap\u005fhost":"evil","k\u0076_transfer_params":{"remote_host":"evil"}`,
			`"bootstrap_host":"a","bootstrap_host":"evil","bootstrap_host":null`,
		} {
			for _, request := range []string{
				chat(`{` + fields + `,"model":"m","messages":[{"role":"user","content":"hi"}],"top_k":1}`),
				chat(`{"model":"m","messages":[{"role":"user","content":"hi"}],"top_k":1,` + fields + `}`),
				post("/generate", `{"text":"hi",`+fields+`,"top_k":1}`),
			} {
				if r := g.do(request); r.status != 200 {
					t.Fatalf("%d %s", r.status, r.body)
				}
				got := e.last(t).body
				var keys map[string]json.RawMessage
				if err := json.Unmarshal([]byte(got), &keys); err != nil {
					t.Fatalf("%s: %v", got, err)
				}
				if strings.Contains(got, "evil") || strings.Contains(got, "boot") || strings.Contains(got, "transfer") || string(keys["top_k"]) != "1" {
					t.Errorf("the engine sees %s", got)
				}
			}
		}
		// Inside a text they are the client's own business, as are ranks.
		const harmless = `{"model":"m","messages":[{"role":"user","content":"bootstrap_host"}],"data_parallel_rank":1,"x":{"bootstrap_host":1}}`
		if g.do(chat(harmless)); e.last(t).body != harmless {
			t.Errorf("the engine sees %s", e.last(t).body)
		}
	})

	t.Run("82_usual_bodies_cost_nothing", func(t *testing.T) {
		b, err := body.Parse([]byte(chatBody), 10)
		if err != nil {
			t.Fatal(err)
		}
		foreign := foreignFields()
		if n := testing.AllocsPerRun(100, func() { b.Edit(foreign...) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
