package simtest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends a small chat and returns the status and the answer.
func ask(t *testing.T, url string) (int, string) {
	t.Helper()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Post(url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestEnginesAreApart(t *testing.T) {
	engines := simtest.StartN(t, 3, simtest.Config())
	if err := engines[1].SetRules(t.Context(), simctl.Rule{Status: http.StatusTeapot}); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]bool{}
	for i, want := range []int{200, 418, 200} {
		status, body := ask(t, engines[i].URL)
		if status != want {
			t.Errorf("engine %d: %d, want %d", i, status, want)
		}
		bodies[body] = true
		if _, err := engines[i].WaitIdle(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(bodies) != 3 {
		t.Error("two engines gave the same request id")
	}
	for i, want := range []int{0, 1, 0} {
		if r, err := engines[i].Records(t.Context(), ""); err != nil || len(r) != want {
			t.Errorf("engine %d has %d records, want %d (%v)", i, len(r), want, err)
		}
	}
}

func TestRoles(t *testing.T) {
	cfg := simtest.Config()
	pd := simtest.StartPD(t, 2, 1, cfg)
	if len(pd.All()) != 3 || pd.Prefill[0].PeerPort == pd.Prefill[1].PeerPort || pd.Decode[0].PeerPort != 0 {
		t.Errorf("%+v", pd)
	}
	if got := pd.Decode[0].Server.Config().Disagg.BootstrapPort; got != pd.Prefill[0].PeerPort {
		t.Errorf("the decode engine's own port is %d", got)
	}
	epd := simtest.StartEPD(t, 2, 1, 1, cfg)
	if len(epd.All()) != 4 || len(epd.Prefill[0].Server.Config().Disagg.ECPeers) != 2 || epd.Prefill[0].PeerPort == 0 {
		t.Errorf("%+v", epd)
	}
}

func TestProxyRewrites(t *testing.T) {
	e := simtest.Start(t, simtest.Config())
	if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
		t.Fatal(err)
	}
	url := simtest.Proxy(t, e.URL, simtest.Members(map[string]any{"bootstrap_room": 5, "added": "x"}))
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","seed":12345678901234567890,"bootstrap_room":4}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	r, err := e.Records(t.Context(), "/v1/completions")
	if err != nil || len(r) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	if got, want := string(r[0].Body), `{"added":"x","bootstrap_room":5,"prompt":"a","seed":12345678901234567890}`; got != want {
		t.Errorf("the engine got %s, want %s", got, want)
	}
}
