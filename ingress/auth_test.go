package ingress

import (
	"fmt"
	"strings"
	"testing"
)

// withKey has clients need the key k.
func withKey() option { return withConfig(func(c *Config) { c.Auth = RequireKey("k") }) }

// asked renders a GET with more fields.
func asked(path string, fields ...string) string {
	return strings.TrimSuffix(get(path), "\r\n") + strings.Join(append(fields, "\r\n"), "\r\n")
}

func TestGatewaySecure(t *testing.T) {
	t.Run("28_api_key", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url}, withKey())
		for _, tt := range []struct {
			name, request string
			status        int
		}{
			{"no_key", chat(chatBody), 401},
			{"lower_case_scheme", chat(chatBody, "Authorization: bearer k"), 401},
			{"another_scheme", chat(chatBody, "Authorization: Basic k"), 401},
			{"no_scheme", chat(chatBody, "Authorization: k"), 401},
			{"two_blanks", chat(chatBody, "Authorization: Bearer  k"), 401},
			{"another_key", chat(chatBody, "Authorization: Bearer j"), 401},
			{"a_begin_of_the_key", chat(chatBody, "Authorization: Bearer "), 401},
			{"a_longer_key", chat(chatBody, "Authorization: Bearer kk"), 401},
			{"a_list", chat(chatBody, "Authorization: Bearer k, Bearer j"), 401},
			{"two_fields", chat(chatBody, "Authorization: Bearer k", "Authorization: Bearer k"), 401},
			{"another_field", chat(chatBody, "X-Api-Key: k"), 401},
			{"in_the_query", post("/v1/chat/completions?api_key=k", chatBody), 401},
			{"health", get("/health"), 200},
			{"liveness", get("/liveness"), 200},
			{"readiness", get("/readiness"), 200},
			{"models", get("/v1/models"), 200},
			{"workers", get("/workers"), 401},
			{"one_worker", get("/workers/" + url), 401},
			{"add_a_worker", post("/workers", `{"url":"http://w:1"}`), 401},
			{"status", get("/status"), 401},
			{"workers_with_key", asked("/workers", "Authorization: Bearer k"), 200},
			{"unknown_path", get("/nothing"), 404},
			{"unknown_method", get("/generate"), 405},
			{"generate_without", post("/generate", `{"text":"hi"}`), 401},
		} {
			t.Run(tt.name, func(t *testing.T) {
				r := g.do(tt.request)
				if r.status != tt.status || tt.status == 401 && r.body != "" {
					t.Errorf("%d %q, want %d", r.status, r.body, tt.status)
				}
				if tt.status == 401 && (r.header.Get("WWW-Authenticate") != "" || r.header.Get("X-SMG-Error-Code") != "") {
					t.Errorf("header %v", r.header)
				}
			})
		}
		if e.requests() != 0 || g.selector.begins() != 0 {
			t.Fatal("a worker was asked on behalf of somebody without a key")
		}
		if r := g.do(chat(chatBody, "Authorization: Bearer k")); r.status != 200 {
			t.Fatalf("with the key: %d %s", r.status, r.body)
		}
		if got := e.last(t).head["Authorization"]; len(got) != 1 || got[0] != "Bearer k" {
			t.Errorf("the worker got %q", got)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", g.cfg, g.cfg.Auth), "Bearer") {
			t.Error("the key can be read off the configuration")
		}
	})

	t.Run("28_no_key_is_open", func(t *testing.T) {
		g := start(t, nil, withConfig(func(c *Config) { c.Auth = RequireKey("") }))
		if r := g.do(get("/workers")); r.status != 200 {
			t.Errorf("%d", r.status)
		}
	})

	t.Run("69_expect_continue_without_key", func(t *testing.T) {
		t.Parallel()
		g := start(t, nil, withKey())
		for _, path := range []string{"/v1/chat/completions", "/generate", "/workers"} {
			c := g.dial()
			c.send("POST " + path + " HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
			if r := c.answer(); r.status != 401 || r.body != "" {
				t.Errorf("%s: %d %q", path, r.status, r.body)
			}
			if !c.closed() {
				t.Errorf("%s: the connection waits for a body that nobody wants", path)
			}
		}
		if left := g.Server.buffers.left.Load(); left != g.budget {
			t.Errorf("%d bytes were taken for bodies that were not to be read", g.budget-left)
		}
	})
}

func TestGatewaySplitting(t *testing.T) {
	t.Run("80_line_ends", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url}, withKey())
		key := "Authorization: Bearer k"
		for _, tt := range []struct {
			name, request string
			status        int
		}{
			{"encoded_in_the_path", post("/v1/chat/completions%0d%0aX-Evil:%201", chatBody, key), 404},
			{"encoded_before_the_path", post("/%0d%0a/v1/chat/completions", chatBody, key), 404},
			{"encoded_in_a_worker", asked("/workers/http://w%0d%0aX-Evil:1", key), 400},
			{"cr_in_the_path", post("/v1/chat\r/completions", chatBody, key), 400},
			{"lf_in_the_path", post("/v1/chat\n/completions", chatBody, key), 400},
			{"cr_in_the_key", chat(chatBody, "Authorization: Bearer k\rX-Evil: 1"), 400},
			{"lf_in_the_key", chat(chatBody, "Authorization: Bearer k\nX-Evil: 1"), 400},
			{"folded_key", chat(chatBody, "Authorization: Bearer\r\n k"), 400},
			{"nul_in_the_key", chat(chatBody, "Authorization: Bearer k\x00"), 400},
			{"cr_in_a_routing_key", chat(chatBody, key, "X-SMG-Routing-Key: a\rX-Evil: 1"), 400},
			{"lf_in_a_routing_key", chat(chatBody, key, "X-SMG-Routing-Key: a\nX-Evil: 1"), 400},
			{"lf_in_routing_tokens", chat(chatBody, key, "X-SMG-Routing-Tokens: 1,2\n3"), 400},
			{"cr_in_a_name", chat(chatBody, key, "X-SMG\r-Routing-Key: a"), 400},
			{"blank_in_a_name", chat(chatBody, key, "X-SMG-Routing-Key : a"), 400},
		} {
			t.Run(tt.name, func(t *testing.T) {
				c := g.dial()
				c.send(tt.request)
				if r := c.answer(); r.status != tt.status || r.header.Get("X-Evil") != "" {
					t.Errorf("%d %q", r.status, r.body)
				}
			})
		}
		if e.requests() != 0 {
			t.Fatalf("the worker got %+v", e.last(t))
		}
		// What is encoded in a query stays there, and no worker sees it.
		if r := g.do(post("/v1/chat/completions?a=%0d%0aX-Evil:%201", chatBody, key)); r.status != 200 {
			t.Errorf("%d", r.status)
		}
		if got := e.last(t); got.head.Get("X-Evil") != "" || got.target != "/v1/chat/completions" {
			t.Errorf("the worker got %+v", got)
		}
	})
}
