package policy_test

import (
	"testing"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

func randomNone(t *testing.T) {
	f := policytest.NewFleet(t, 2)
	f.Down(0, 1)
	wantNobody(t, newPolicy(t, policy.Random), f, plain(f), worker.ErrUnavailable)
}

func randomOne(t *testing.T) {
	wantPicks(t, newPolicy(t, policy.Random), policytest.NewFleet(t, 1), 0, 0, 0)
}

func randomSeesAll(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), newPolicyWith(t, policy.Random, seeded(1))
	seen := map[int]bool{}
	for range 100 {
		seen[pick(t, p, f, plain(f))] = true
	}
	if len(seen) != 3 {
		t.Errorf("100 draws reached %d of 3 workers", len(seen))
	}
}

func randomOneDown(t *testing.T) {
	f := policytest.NewFleet(t, 2)
	f.Down(0)
	wantPicks(t, newPolicy(t, policy.Random), f, 1, 1, 1, 1, 1)
}

func randomIsUniform(t *testing.T) {
	const draws = 30_000
	tests := []struct {
		name  string
		tried []int
	}{
		{"ten workers", nil},
		{"two of them tried", []int{0, 6}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, p := policytest.NewFleet(t, 10), newPolicyWith(t, policy.Random, seeded(42))
			req := plain(f, tt.tried...)
			counts := make([]int, 10)
			for range draws {
				counts[pick(t, p, f, req)]++
			}
			wantUniform(t, without(t, counts, tt.tried))
		})
	}
}
