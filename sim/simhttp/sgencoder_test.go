package simhttp_test

import (
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

func TestSGLangEncoders(t *testing.T) {
	cfg := config(simhttp.SGLang)
	cfg.Disagg.EncoderTimeout = 500 * time.Millisecond
	epd := simtest.StartSGLangEPD(t, 2, 1, 1, cfg)
	p, d := epd.Prefill[0], epd.Decode[0]
	body := chatAbout(picture("a cat"), picture("a dog"), "http://pictures.invalid/1", "http://pictures.invalid/2", "http://pictures.invalid/3")
	_, plain := callerOf(t, simtest.Start(t, cfg)).post("/v1/chat/completions", body)
	pre, dec := both(t, p, d, "/v1/chat/completions", with(t, body, bootstrap(p, 1)))
	if got, want := textOf(t, dec.body), textOf(t, plain); pre.status != 200 || got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if tr := transfersOf(t, p); tr.EmbeddingHits != 5 || tr.EmbeddingMisses != 0 || tr.Encoded != 0 {
		t.Errorf("prefill counts %+v", tr)
	}
	for _, e := range epd.Encode {
		if tr := transfersOf(t, e); tr.Encoded < 2 || tr.Encoded > 3 {
			t.Errorf("encoder counts %+v, want 2 or 3 of 5", tr)
		}
	}
	c := callerOf(t, epd.Encode[0])
	for path, want := range map[string]int{"/v1/chat/completions": 404, "/v1/models": 404, "/health": 200} {
		method := "GET"
		if want == 404 && strings.HasSuffix(path, "completions") {
			method = "POST"
		}
		if status, text := c.do(method, path, ""); status != want {
			t.Errorf("%s at an encoder: %d %s, want %d", path, status, text, want)
		}
	}
	for name, tc := range map[string]struct {
		body   string
		status int
	}{
		"no JSON":          {`{`, 400},
		"no items":         {`{"req_id":"a","modality":"image"}`, 400},
		"no picture":       {`{"req_id":"a","modality":"image","mm_items":["ftp://a"]}`, 400},
		"nobody waits":     {`{"req_id":"b","modality":"image","mm_items":["http://a/1"]}`, 504},
		"a wrong modality": {`{"req_id":"a","modality":"image","mm_items":["data:audio/wav;base64,QQ=="]}`, 400},
	} {
		if status, text := c.post("/encode", tc.body); status != tc.status || !strings.Contains(text, `"status":"error"`) {
			t.Errorf("%s: %d %s, want %d", name, status, text, tc.status)
		}
	}
	setFaults(t, epd.Encode[0], simctl.Faults{Refuse: true})
	pre, _ = each(t, p, d, "/v1/chat/completions", with(t, body, bootstrap(p, 2)), `{}`)
	if pre.status != 408 || !strings.Contains(pre.body, "Timeout waiting for image embedding after 0.5s") {
		t.Errorf("without an encoder: %+v", pre)
	}
	setFaults(t, epd.Encode[0], simctl.Faults{})
	atRest(t, epd.All()...)
}

func TestSGLangEncoderFlags(t *testing.T) {
	for name, change := range map[string]func(*simhttp.Config){
		"of vllm":                func(c *simhttp.Config) { c.Kind, c.Disagg.EncoderOnly = simhttp.VLLM, true },
		"two roles":              func(c *simhttp.Config) { c.Disagg.EncoderOnly, c.Disagg.Mode = true, simhttp.Prefill },
		"language only at large": func(c *simhttp.Config) { c.Disagg.LanguageOnly, c.Disagg.EncoderURLs = true, []string{"http://a"} },
		"no encoders":            func(c *simhttp.Config) { c.Disagg.LanguageOnly, c.Disagg.Mode = true, simhttp.Prefill },
		"no time":                func(c *simhttp.Config) { c.Disagg.EncoderTimeout = 0 },
	} {
		cfg := config(simhttp.SGLang)
		change(&cfg)
		if err := cfg.Validate(); err == nil {
			t.Errorf("%s: no fault", name)
		}
	}
}
