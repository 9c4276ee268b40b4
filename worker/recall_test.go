package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecall(t *testing.T) {
	var r Recall
	var got []RecallStage
	pass := func(from, to time.Duration) {
		for now := from; now < to; now += 250 * ms {
			if stage, due := r.Tick(at(now)); due {
				got = append(got, stage)
			}
		}
	}
	pass(0, 10*time.Second)
	got = append(got, r.Begin(at(10*time.Second)))
	pass(10*time.Second, 30*time.Second)
	got = append(got, r.Begin(at(30*time.Second)))
	pass(30*time.Second, 31500*ms)
	r.Answered()
	pass(31500*ms, 60*time.Second)
	if d := cmp.Diff([]RecallStage{RecallFirst, RecallReplicas, RecallAll, RecallFirst, RecallReplicas}, got); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
}

// TestRecalls: one of those alive answers at first, if there is anybody, and whoever
// has asked and heard nothing is answered by all.
func TestRecalls(t *testing.T) {
	tests := []struct {
		name    string
		alive   []ReplicaID
		asker   uint64
		stage   RecallStage
		replica int  // how many of the replicas 1 to 5 answer, whether or not they are alive
		copies  bool // ingresses do
	}{
		{"an older asker", []ReplicaID{1, 2, 3}, 9, RecallAny, 5, true},
		{"an ingress", []ReplicaID{1, 2, 3}, 9, RecallFirst, 1, false},
		{"a replica of them", []ReplicaID{1, 2, 3}, 2, RecallFirst, 1, false},
		{"the only replica", []ReplicaID{2}, 2, RecallFirst, 5, true},
		{"nobody is alive", nil, 9, RecallFirst, 5, true},
		{"the first was silent", []ReplicaID{1, 2, 3}, 9, RecallReplicas, 5, false},
		{"all were", []ReplicaID{1, 2, 3}, 9, RecallAll, 5, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRanking()
			for _, id := range tt.alive {
				r.Apply(ReplicaBeat{Replica: id, Ready: true}, at(0))
			}
			n := 0
			for id := range ReplicaID(5) {
				if r.Recalls(tt.stage, tt.asker, id+1) {
					n++
					if uint64(id+1) == tt.asker && tt.replica == 1 {
						t.Error("who asks is to answer")
					}
				}
			}
			if n != tt.replica || r.RecallsCopy(tt.stage, tt.asker) != tt.copies {
				t.Errorf("%d replicas answer, and ingresses: %v; want %d, %v", n, r.RecallsCopy(tt.stage, tt.asker), tt.replica, tt.copies)
			}
		})
	}
	t.Run("different askers ask different replicas", func(t *testing.T) {
		r := NewRanking()
		asked := map[ReplicaID]bool{}
		for id := range ReplicaID(3) {
			r.Apply(ReplicaBeat{Replica: id + 1, Ready: true}, at(0))
		}
		for asker := range uint64(100) {
			for id := range ReplicaID(3) {
				if r.Recalls(RecallFirst, 1000+asker, id+1) {
					asked[id+1] = true
				}
			}
		}
		if len(asked) != 3 {
			t.Errorf("only %v answer", asked)
		}
	})
}
