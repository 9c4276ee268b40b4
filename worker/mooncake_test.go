package worker

import "testing"

func TestMooncakeID(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  Spec
		want  string
		known bool
	}{
		{"nobody has said", Spec{}, "", false},
		{"a whole engine", Spec{KVEngineID: "e"}, "e", true},
		{"a whole engine of one rank", Spec{KVEngineID: "e", Labels: map[string]string{"dp_size": "1"}}, "e", true},
		{"a rank", Spec{KVEngineID: "e", DPSize: 4, DPRank: 3}, "e_dp3", true},
		{"the first rank", Spec{KVEngineID: "e", DPSize: 2}, "e_dp0", true},
		{"the only rank", Spec{KVEngineID: "e", DPSize: 1}, "e", true},
		{"a rank says more than a label", Spec{KVEngineID: "e", DPSize: 2, DPRank: 1, Labels: map[string]string{"dp_size": "x"}}, "e_dp1", true},
		{"several ranks, none of them", Spec{KVEngineID: "e", Labels: map[string]string{"dp_size": "2"}}, "", false},
		{"a rank nobody named", Spec{DPSize: 2, DPRank: 1}, "", false},
		{"a size that is no number", Spec{KVEngineID: "e", Labels: map[string]string{"dp_size": "two"}}, "", false},
		{"a size of none", Spec{KVEngineID: "e", Labels: map[string]string{"dp_size": "0"}}, "", false},
		{"an empty size", Spec{KVEngineID: "e", Labels: map[string]string{"dp_size": ""}}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if id, ok := c.spec.MooncakeID(); id != c.want || ok != c.known {
				t.Errorf("got %q, %v, want %q, %v", id, ok, c.want, c.known)
			}
		})
	}
}
