package worker

import (
	"testing"
)

// TestDisaggConformance holds what of the conformance list is about URLs.
func TestDisaggConformance(t *testing.T) {
	for _, tt := range []struct {
		name, url, base string
		rank            int
		ok              bool
	}{
		{"9_host_with_a_rank", "http://host:8000@3", "http://host:8000", 3, true},
		{"9_no_rank", "http://host:8000", "http://host:8000", 0, false},
		{"9_user_is_no_rank", "http://user@host", "http://user@host", 0, false},
		{"9_user_of_a_port", "http://user@host:8000", "http://user@host:8000", 0, false},
		{"9_the_last_at_counts", "http://user@host:8000@12", "http://user@host:8000", 12, true},
		{"9_nothing_behind_it", "http://host:8000@", "http://host:8000@", 0, false},
		{"9_a_letter_behind_it", "http://host:8000@x1", "http://host:8000@x1", 0, false},
		{"9_a_letter_at_the_end", "http://host:8000@1x", "http://host:8000@1x", 0, false},
		{"9_a_sign", "http://host:8000@-1", "http://host:8000@-1", 0, false},
		{"9_no_scheme", "user@host", "user@host", 0, false},
		{"9_at_alone", "@", "@", 0, false},
		{"9_behind_a_path", "http://host:8000/v1@0", "http://host:8000/v1", 0, true},
		{"9_too_large", "http://host:8000@99999999999999999999", "http://host:8000@99999999999999999999", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if base, rank, ok := SplitRank(tt.url); base != tt.base || rank != tt.rank || ok != tt.ok {
				t.Errorf("%q, %d, %v, want %q, %d, %v", base, rank, ok, tt.base, tt.rank, tt.ok)
			}
		})
	}
	for _, tt := range []struct{ name, url, want string }{
		{"9_canonical", "http://host:8000@3", "http://host:8000@3"},
		{"9_canonical_slash", "http://host:8000/@3", "http://host:8000@3"},
		{"9_canonical_zeros", "http://host:8000@007", "http://host:8000@7"},
		{"9_canonical_user", "http://user@host:8000@3", ""},
		{"9_canonical_user_alone", "http://user@host", ""},
		{"9_canonical_nothing", "http://host:8000@", ""},
		{"9_canonical_letter", "http://host:8000@x1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := CanonicalURL(tt.url); got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestRanksComeInTheirOrder(t *testing.T) {
	whole := &Spec{URL: "http://h:1", ID: IDOf("http://h:1"), Leg: Decode}
	two, ten := whole.Ranked(2, 11), whole.Ranked(10, 11)
	if two.Compare(ten) >= 0 || ten.Compare(two) <= 0 || two.URL != "http://h:1@2" || two.Base() != whole.URL || two.ID == whole.ID {
		t.Errorf("%+v, %+v", two, ten)
	}
}
