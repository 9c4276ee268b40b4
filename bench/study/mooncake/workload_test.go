package mooncake

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/study"
)

func TestSpread(t *testing.T) {
	var requests []study.Request
	for _, at := range []time.Duration{0, 0, 0, 3, 9, 9, 9} {
		requests = append(requests, study.Request{At: at * time.Second})
	}
	spread(requests)
	var got []time.Duration
	for _, r := range requests {
		got = append(got, r.At/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{0, 1, 2, 3, 9, 9, 9}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
