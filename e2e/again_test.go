package e2e

import (
	"encoding/json"
	"maps"
	"strconv"
	"syscall"
	"testing"

	"smg/sim/simtest"
)

// epochs are the epochs of the registered workers, by URL.
func epochs(t *testing.T, g *gateway) map[string]uint64 {
	t.Helper()
	var list struct {
		Workers []struct {
			URL   string
			Epoch uint64
		}
	}
	if err := json.Unmarshal([]byte(get(t, g.url+"/workers")), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]uint64{}
	for _, w := range list.Workers {
		all[w.URL] = w.Epoch
	}
	return all
}

// TestAnIngressComesAndNobodyIsNew has ingresses of one command line come and go. The
// workers stay what they are: nobody forgets what is known of them.
func TestAnIngressComesAndNobodyIsNew(t *testing.T) {
	parallel(t)
	n := startNATS(t)
	pd := simtest.StartPD(t, 1, 1, simtest.Config())
	args := []string{"--pd-disaggregation", "--prefill", pd.Prefill[0].URL, strconv.Itoa(pd.Prefill[0].PeerPort), "--decode", pd.Decode[0].URL}
	for _, leg := range []string{"prefill", "decode"} {
		selectorOn(t, n.url(), leg)
	}
	first := ingressOn(t, n.url(), args...)
	first.says(`^ready +2 of 2 workers`)
	whole(t, first, 3)
	before := epochs(t, first)
	if len(before) != 2 {
		t.Fatalf("workers %v, want 2", before)
	}
	second := ingressOn(t, n.url(), args...)
	second.says(`^ready +2 of 2 workers`)
	whole(t, second, 3)
	first.signal(syscall.SIGKILL)
	first.ends(137)
	third := ingressOn(t, n.url(), args...)
	third.says(`^ready +2 of 2 workers`)
	whole(t, third, 3)
	for _, g := range []*gateway{second, third} {
		if now := epochs(t, g); !maps.Equal(now, before) {
			t.Errorf("epochs %v, and then %v", before, now)
		}
	}
}
