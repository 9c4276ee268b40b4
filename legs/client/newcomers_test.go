package client

import (
	"testing"
	"time"

	"smg/worker"
)

func TestNewcomers(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(n), 0) }
	var n newcomers
	for i, tt := range []struct {
		name  string
		heard []worker.ReplicaID
		want  int
	}{
		{"nobody", nil, 1},
		{"one has come", []worker.ReplicaID{1}, worker.Quarters},
		{"it is there", []worker.ReplicaID{1}, 1},
		{"two more", []worker.ReplicaID{1, 2, 3}, worker.Quarters},
		{"one is silent", []worker.ReplicaID{2, 3}, 1},
		{"still", []worker.ReplicaID{2, 3}, 1},
		{"for too long", []worker.ReplicaID{2, 3}, 1},
		{"and back", []worker.ReplicaID{1, 2, 3}, worker.Quarters},
		{"all are there", []worker.ReplicaID{1, 2, 3}, 1},
	} {
		now := second(i)
		for _, id := range tt.heard {
			n.hear(id, now)
		}
		if got := n.quarters(now); got != tt.want {
			t.Errorf("%s: %d beats, want %d", tt.name, got, tt.want)
		}
	}
	if n.quarters(second(100)); len(n.heard) != 0 {
		t.Errorf("%d are remembered long after they were heard", len(n.heard))
	}
}
