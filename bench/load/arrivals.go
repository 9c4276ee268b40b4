package load

import (
	"math/rand/v2"
	"time"
)

// Poisson returns the moments, counted from the begin, at which requests arrive
// independently of each other at so many per second on average, in order, up to d.
// The same seed gives the same moments.
func Poisson(seed uint64, perSecond float64, d time.Duration) []time.Duration {
	if perSecond <= 0 || d <= 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	var at []time.Duration
	for now := 0.0; ; {
		now += rng.ExpFloat64() / perSecond
		if now >= d.Seconds() {
			return at
		}
		at = append(at, time.Duration(now*float64(time.Second)))
	}
}
