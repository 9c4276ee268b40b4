package simhttp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// TestWindowIsReported: an SGLang engine tells how many sequences it runs at a time,
// also when that is less than it was started for.
func TestWindowIsReported(t *testing.T) {
	cfg := simtest.Config()
	cfg.Kind = simhttp.SGLang
	e := simtest.Start(t, cfg)
	tells := func(path string, find func(body []byte) (int, error)) int {
		t.Helper()
		resp, err := http.Get(e.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		n, err := find(body)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	type limits struct {
		Max   int `json:"max_running_requests"`
		Loads []struct {
			Max int `json:"max_running_requests"`
		} `json:"loads"`
	}
	for _, want := range []int{256, 4, 256} {
		faults := simctl.Faults{}
		if want != 256 {
			faults.Window = new(want)
		}
		if err := e.SetFaults(t.Context(), faults); err != nil {
			t.Fatal(err)
		}
		info := tells("/server_info", func(b []byte) (int, error) {
			var l limits
			err := json.Unmarshal(b, &l)
			return l.Max, err
		})
		loads := tells("/v1/loads", func(b []byte) (int, error) {
			var l limits
			if err := json.Unmarshal(b, &l); err != nil || len(l.Loads) != 1 {
				return 0, err
			}
			return l.Loads[0].Max, nil
		})
		if info != want || loads != want {
			t.Errorf("it tells of %d and of %d, want %d", info, loads, want)
		}
	}
}
