package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Quantile returns the smallest of sorted that at least the share q of all of them
// does not exceed (nearest rank), or the zero value if there are none. q below 0
// counts as 0, above 1 as 1.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	if len(sorted) == 0 {
		var none T
		return none
	}
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Spread is a median with the extremes around it. The zero value is that of no
// values.
type Spread struct {
	Min, Median, Max float64
	N                int
}

// Of returns the spread of values, whose order does not matter and stays. The
// median of an even number of values is the mean of the middle two.
func Of(values []float64) Spread {
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	return Spread{Min: v[0], Median: (v[(n-1)/2] + v[n/2]) / 2, Max: v[n-1], N: n}
}

// Excludes says whether every value lies on the same side of x, none on it: only
// then a difference from x may be claimed.
func (s Spread) Excludes(x float64) bool { return s.N > 0 && (s.Max < x || x < s.Min) }

// Format writes the spread with so many digits behind the point, as
// "median (min–max)", or "-" if it is of no values.
func (s Spread) Format(digits int) string {
	if s.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.Median, digits, s.Min, digits, s.Max)
}

// Ratios divides values[i] by base[i]: the two of one round. Rounds that only one
// side has, and those with a base of zero, are left out.
func Ratios(values, base []float64) []float64 {
	out := make([]float64, 0, len(values))
	for i := range min(len(values), len(base)) {
		if base[i] != 0 {
			out = append(out, values[i]/base[i])
		}
	}
	return out
}

// Differences subtracts base[i] from values[i]: the two of one round. Rounds that
// only one side has are left out.
func Differences(values, base []float64) []float64 {
	out := make([]float64, 0, len(values))
	for i := range min(len(values), len(base)) {
		out = append(out, values[i]-base[i])
	}
	return out
}
