package kvindex

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestSetsProperty compares shared sets with maps. Members lie far apart and close
// together, so that lists become bits of many lengths and back.
func TestSetsProperty(t *testing.T) {
	slots := rapid.OneOf(rapid.Uint32Max(40), rapid.Uint32Max(70), rapid.Uint32Max(1000))
	rapid.Check(t, func(t *rapid.T) {
		var s sets
		type holder struct {
			id   setID
			want map[uint32]bool
		}
		var all []*holder
		t.Repeat(map[string]func(*rapid.T){
			"one": func(t *rapid.T) {
				slot := slots.Draw(t, "slot")
				all = append(all, &holder{s.one(slot), map[uint32]bool{slot: true}})
			},
			"copy": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nothing to copy")
				}
				h := rapid.SampledFrom(all).Draw(t, "set")
				if h.id != 0 {
					s.retain(h.id)
				}
				c := &holder{h.id, map[uint32]bool{}}
				for slot := range h.want {
					c.want[slot] = true
				}
				all = append(all, c)
			},
			"toggle": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nothing to change")
				}
				some := rapid.SliceOfN(slots, 1, 20).Draw(t, "slots")
				for _, h := range rapid.SliceOfN(rapid.SampledFrom(all), 1, 4).Draw(t, "sets") {
					for _, slot := range some {
						h.id = s.toggle(h.id, slot)
						if h.want[slot] {
							delete(h.want, slot)
						} else {
							h.want[slot] = true
						}
					}
				}
			},
			"release": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nothing to release")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "set")
				s.release(all[i].id)
				all = slices.Delete(all, i, i+1)
			},
			"": func(t *rapid.T) {
				refs := map[setID]int{}
				for _, h := range all {
					if h.id != 0 {
						refs[h.id]++
					}
					got := map[uint32]bool{}
					for slot := range s.all[h.id].members {
						got[slot] = true
					}
					if diff := cmp.Diff(h.want, got); diff != "" {
						t.Fatalf("members (-want +got):\n%s", diff)
					}
					for _, o := range all {
						if same := maps.Equal(h.want, o.want); same != (h.id == o.id) {
							t.Fatalf("sets %v and %v are kept as %d and %d", h.want, o.want, h.id, o.id)
						}
					}
				}
				checkSets(t, &s, refs)
			},
		})
	})
}

// TestSetsWithOneHash files a set under the hash of another.
func TestSetsWithOneHash(t *testing.T) {
	var s sets
	impostor := s.toggle(s.one(1), 4)
	delete(s.byHash, s.all[impostor].hash)
	hash := spread(3+1) + spread(4+1)
	s.all[impostor].hash, s.byHash[hash] = hash, impostor

	right := s.toggle(s.one(3), 4)
	if right == impostor || s.has(right, 1) || !s.has(right, 3) || !s.has(right, 4) {
		t.Errorf("{3, 4} is kept as %v, {1, 4} as %v", s.all[right].few, s.all[impostor].few)
	}
	if again := s.toggle(s.one(4), 3); again != right {
		t.Errorf("{3, 4} is kept twice")
	}
	s.release(impostor)
	if !s.has(right, 3) || s.byHash[hash] != right {
		t.Errorf("{3, 4} went with {1, 4}")
	}
}

func TestSetsShrink(t *testing.T) {
	var s sets
	low := s.one(0)
	for slot := range uint32(40) {
		if slot > 0 {
			low = s.toggle(low, slot)
		}
	}
	wide := s.toggle(low, 9999)
	low = s.toggle(wide, 9999)
	checkSets(t, &s, map[setID]int{low: 1})
}
