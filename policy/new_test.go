package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
)

func TestNames(t *testing.T) {
	want := []string{"random", "round_robin", "passthrough", "cache_aware", "power_of_two", "least_load", "prefix_hash", "consistent_hashing", "manual", "bucket"}
	if diff := cmp.Diff(want, policy.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestParseName(t *testing.T) {
	tests := []struct{ name, want string }{
		{"cache_aware", "cache_aware"},
		{"CacheAware", "cache_aware"},
		{"RoundRobin", "round_robin"},
		{"poweroftwo", "power_of_two"},
		{"POWER_OF_TWO", "power_of_two"},
		{"random", "random"},
		{"Power_OfTwo", ""},
		{"cache-aware", ""},
		{" random", ""},
		{"", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := policy.ParseName(tt.name)
			if got != tt.want || errors.Is(err, policy.ErrUnknown) != (tt.want == "") {
				t.Errorf("ParseName(%q) = %q, %v, want %q", tt.name, got, err, tt.want)
			}
		})
	}
}

func TestNewAndValidate(t *testing.T) {
	tests := []struct {
		name string
		want error
		says []string
	}{
		{"random", nil, nil},
		{"round_robin", nil, nil},
		{"passthrough", nil, nil},
		{"consistent_hashing", nil, nil},
		{"cache_aware", nil, nil},
		{"fastest", policy.ErrUnknown, []string{`"fastest"`, strings.Join(policy.Names(), ", ")}},
		{"", policy.ErrUnknown, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := policy.New(tt.name, policy.DefaultConfig(), policy.Deps{})
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			for _, part := range tt.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if (p == nil) != (tt.want != nil) {
				t.Errorf("policy %v", p)
			}
			cfg := policy.DefaultConfig()
			cfg.Policy = tt.name
			if err := cfg.Validate(); errors.Is(err, policy.ErrUnknown) != errors.Is(tt.want, policy.ErrUnknown) {
				t.Errorf("Validate: %v", err)
			} else if err != nil && !strings.HasPrefix(err.Error(), "--policy: ") {
				t.Errorf("error %q does not name the flag", err)
			}
		})
	}
	if err := policy.DefaultConfig().Validate(); err != nil {
		t.Errorf("the default is refused: %v", err)
	}
}
