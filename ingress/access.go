package ingress

import (
	"fmt"
	"math"
	"net/http"
)

// AccessConfig is what is told of each request: by which id, and where.
type AccessConfig struct {
	// DurationBuckets are the upper bounds of all histograms of durations, in seconds.
	DurationBuckets []float64
}

// DefaultAccess is that of a gateway that was given no flags.
func DefaultAccess() AccessConfig {
	return AccessConfig{DurationBuckets: durationBuckets()}
}

// Validate reports every value out of range, each by its flag.
func (c AccessConfig) Validate() error {
	for i, b := range c.DurationBuckets {
		if !(b > 0) || math.IsInf(b, 0) || i > 0 && b <= c.DurationBuckets[i-1] {
			return fmt.Errorf("--prometheus-duration-buckets must be above 0 and ascend, which %v do not", c.DurationBuckets)
		}
	}
	return nil
}

// durationBuckets are those of a gateway that was given no flags.
func durationBuckets() []float64 {
	return []float64{
		0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240, 300, 480, 900, 1200, 1800, 2700,
		3600, 5400, 7200,
	}
}

// arrived notes that a request has come: its route is known, if there is one.
func (x *exchange) arrived(r *http.Request) { x.arrivalCounted(r) }

// departed notes what has become of it: see exchange.out and exchange.err. It is
// called however the request ends, also where the connection is cut.
func (x *exchange) departed(*http.Request) { x.servedCounted() }
