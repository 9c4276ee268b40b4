package tokenizer

import (
	"fmt"
	"math"
	"strconv"
)

// parseScore reads a number of a JSON file as the reference does, whose reader
// rounds twice: up to nineteen digits as an integer, then the power of ten. The
// last bit decides between ways to split a word that are equally good.
func parseScore(raw []byte) (float64, error) {
	bad := func() (float64, error) { return 0, fmt.Errorf("%.40q is not a number", raw) }
	s := raw
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	var digits uint64
	exponent := 0
	some, full := false, false
	point := false
	for len(s) > 0 && (s[0] >= '0' && s[0] <= '9' || s[0] == '.' && !point) {
		c := s[0]
		s = s[1:]
		if c == '.' {
			point = true
			continue
		}
		some = true
		d := uint64(c - '0')
		if full || digits > math.MaxUint64/10 || digits*10 > math.MaxUint64-d {
			full = true
			if !point {
				exponent++
			}
			continue
		}
		digits = digits*10 + d
		if point {
			exponent--
		}
	}
	if !some {
		return bad()
	}
	if len(s) > 0 {
		if s[0] != 'e' && s[0] != 'E' {
			return bad()
		}
		e, err := strconv.Atoi(string(s[1:]))
		if err != nil || e > 1e6 || e < -1e6 {
			return bad()
		}
		exponent += e
	}
	f := float64(digits)
	for f != 0 && exponent < -308 {
		f /= 1e308
		exponent += 308
	}
	if f != 0 && exponent != 0 {
		if exponent > 308 {
			return bad()
		}
		p, err := strconv.ParseFloat("1e"+strconv.Itoa(max(exponent, -exponent)), 64)
		if err != nil {
			return bad()
		}
		if exponent > 0 {
			f *= p
		} else {
			f /= p
		}
	}
	if math.IsInf(f, 0) {
		return bad()
	}
	if negative {
		f = -f
	}
	return f, nil
}
