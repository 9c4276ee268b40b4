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
