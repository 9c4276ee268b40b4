package flags

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"smg/launcher"
	"smg/policy"
)

// badValue is a value that its flag refuses.
type badValue struct{ problem, want string }

func (e *badValue) Error() string { return e.problem }

// wrongChoice is a badValue where there are only choices.
type wrongChoice struct {
	badValue
	choices []string
}

func (e *wrongChoice) Unwrap() error { return &e.badValue }

func noChoice(choices []string, format string, args ...any) error {
	return &wrongChoice{badValue{fmt.Sprintf(format, args...), "use one of " + strings.Join(choices, ", ")}, choices}
}

// maxSeconds keeps every duration well inside time.Duration.
const maxSeconds = math.MaxUint32

func setText(field func(*Serve) *string) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		*field(s) = v
		return nil
	}
}

func setBool(field func(*Serve) *bool) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		if v != "true" && v != "false" {
			return &badValue{fmt.Sprintf("%q is neither true nor false", v), "leave the value out, or write true or false"}
		}
		*field(s) = v == "true"
		return nil
	}
}

func setNumber[T int | int64](field func(*Serve) *T, low, high int64) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		n, err := parseNumber(v, low, high)
		if err != nil {
			return err
		}
		*field(s) = T(n)
		return nil
	}
}

// setSeconds takes whole seconds from low on.
func setSeconds(field func(*Serve) *time.Duration, low int64) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		n, err := parseNumber(v, low, maxSeconds)
		if err != nil {
			return err
		}
		*field(s) = time.Duration(n) * time.Second
		return nil
	}
}

// setMilliseconds takes whole milliseconds.
func setMilliseconds(field func(*Serve) *time.Duration) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		n, err := parseNumber(v, 0, maxSeconds)
		if err != nil {
			return err
		}
		*field(s) = time.Duration(n) * time.Millisecond
		return nil
	}
}

// setDecimal takes a finite number.
func setDecimal(field func(*Serve) *float64) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return &badValue{fmt.Sprintf("%q is not a number", v), "write a number such as 1.5"}
		}
		*field(s) = x
		return nil
	}
}

// setFloat takes any number: what it has to be is judged with the policy that reads
// it.
func setFloat(field func(*Serve) *float64) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return &badValue{fmt.Sprintf("%q is not a number", v), "write a number such as 1.5"}
		}
		*field(s) = x
		return nil
	}
}

// setUsage takes a share of something that must not be nothing.
func setUsage(field func(*Serve) *float64) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		x, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil:
			return &badValue{fmt.Sprintf("%q is not a number", v), "write a number such as 0.9"}
		case !(x > 0 && x <= 1): // NaN is neither
			return &badValue{v + " is out of range", "write a number above 0, at most 1"}
		}
		*field(s) = x
		return nil
	}
}

// setAnySeconds takes whole seconds, as many as a duration holds.
func setAnySeconds(field func(*Serve) *time.Duration) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		n, err := parseNumber(v, 0, int64(math.MaxInt64/time.Second))
		if err != nil {
			return err
		}
		*field(s) = time.Duration(n) * time.Second
		return nil
	}
}

// setBoundaries takes whole numbers with commas between them.
func setBoundaries(s *Serve, v string) error {
	var all []int
	for item := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(item)
		if err != nil {
			return &badValue{fmt.Sprintf("%q is not a whole number", item), "write numbers with commas between them, such as 2048,8192"}
		}
		all = append(all, n)
	}
	s.Policies.Boundaries = all
	return nil
}

// both takes a value that two settings share.
func both(first, second func(*Serve, string) error) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		if err := first(s, v); err != nil {
			return err
		}
		return second(s, v)
	}
}

// setWords takes arguments in one string, as a shell splits them.
func setWords(field func(*Serve) *[]string) func(*Serve, string) error {
	return func(s *Serve, v string) (err error) {
		*field(s), err = splitWords(v)
		return err
	}
}

func parseNumber(v string, low, high int64) (int64, error) {
	want := fmt.Sprintf("write a whole number from %d to %d", low, high)
	if high == math.MaxInt64 {
		want = fmt.Sprintf("write a whole number, %d or more", low)
	}
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil:
		return 0, &badValue{fmt.Sprintf("%q is not a whole number", v), want}
	case n < low || n > high:
		return 0, &badValue{fmt.Sprintf("%d is out of range", n), want}
	}
	return n, nil
}

func setEnum(field func(*Serve) *string, what string, names []string) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		if !slices.Contains(names, v) {
			return noChoice(names, "%q is not a known %s", v, what)
		}
		*field(s) = v
		return nil
	}
}

// setLegPolicy takes the name of a policy of the prefill or decode leg.
func setLegPolicy(field func(*Serve) (name *string, set *bool)) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		name, set := field(s)
		*set = true
		if v == policy.Passthrough {
			return noChoice(legPolicies(), "%s is for a single worker, not for a leg", v)
		}
		return setEnum(func(*Serve) *string { return name }, "policy of a leg", legPolicies())(s, v)
	}
}

// setLevel takes the name of a log level.
func setLevel(s *Serve, v string) error {
	var l slog.Level
	names := []string{"debug", "info", "warn", "error"}
	if !slices.Contains(names, v) || l.UnmarshalText([]byte(v)) != nil {
		return noChoice(names, "%q is not a log level", v)
	}
	s.LogLevel = l
	return nil
}

// setLogMode takes the name of a way to treat engine output.
func setLogMode(s *Serve, v string) error {
	var names []string
	for _, m := range launcher.LogModes() {
		names = append(names, string(m))
	}
	var mode string
	err := setEnum(func(*Serve) *string { return &mode }, "way to treat engine output", names)(s, v)
	if err == nil {
		s.Engines.Log = launcher.LogMode(mode)
	}
	return err
}

// addHeader takes one more name of a header.
func addHeader(field func(*Serve) *[]string) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		if v == "" || strings.ContainsFunc(v, func(r rune) bool { return !headerRune(r) }) {
			return &badValue{fmt.Sprintf("%q is not a header name", v), "write names such as x-smg-routing-key, without spaces or colons"}
		}
		*field(s) = append(*field(s), strings.ToLower(v))
		return nil
	}
}

// setHostPort takes an address with its port.
func setHostPort(field func(*Serve) *string) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		_, port, err := net.SplitHostPort(v)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			return &badValue{fmt.Sprintf("%q is not an address with a port", v), "write HOST:PORT, such as 127.0.0.1:6060"}
		}
		*field(s) = v
		return nil
	}
}

// addSeconds takes one more number of seconds.
func addSeconds(field func(*Serve) *[]float64) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return &badValue{fmt.Sprintf("%q is not a number", v), "write seconds such as 0.1 0.5 1 5"}
		}
		*field(s) = append(*field(s), x)
		return nil
	}
}

// headerRune says whether RFC 9110 allows r in a field name.
func headerRune(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return true
	}
	return strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
