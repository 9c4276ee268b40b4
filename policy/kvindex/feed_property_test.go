package kvindex

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// publisher is an engine as one that subscribes sees it: ranks that count by
// themselves, of which it remembers all batches, or what they hold.
type publisher struct {
	resume Resume
	logs   [][]Batch // by rank
	hashes [][]uint64
	state  *Index // what the ranks hold
	src    *Source
}

func newPublisher(resume Resume, ranks int) *publisher {
	p := &publisher{resume: resume, logs: make([][]Batch, ranks), hashes: make([][]uint64, ranks), state: New(Bounds{}, start)}
	p.src = p.state.Track(workerID(1), 2)
	return p
}

// happen makes a batch of a rank.
func (p *publisher) happen(t *rapid.T, rank int) Batch {
	log := p.logs[rank]
	b := Batch{Rank: rank, Seq: uint64(rank * 5)} // they begin at different numbers, one of them at 0
	if n := len(log); n > 0 {
		b.Seq = log[n-1].Seq + 1
	}
	for range rapid.IntRange(0, 3).Draw(t, "events") {
		hash := rapid.Uint64Range(1, 6).Draw(t, "hash")
		e := Event{Kind: EventKind(rapid.IntRange(1, 8).Draw(t, "kind"))}
		switch e.Kind {
		case Cleared:
		case Removed:
			e.Hashes = []uint64{hash}
		default:
			e.Kind, e.Blocks = Stored, blocks(2, hash, uint32(hash), uint32(hash))
			e.Parent = rapid.Uint64Range(0, 6).Draw(t, "parent")
			e.Chained = e.Parent > 0 && e.Parent < hash // whose content does not change then
		}
		b.Events = append(b.Events, e)
	}
	p.logs[rank] = append(log, b)
	naively(t, p.src, &b)
	return b
}

// naively does what a batch says, whatever its number.
func naively(t *rapid.T, src *Source, b *Batch) {
	for _, e := range b.Events {
		switch e.Kind {
		case Stored:
			if !e.Chained || src.Extend(b.Rank, e.Parent, e.Blocks, start) != nil {
				must(t, src.Store(b.Rank, e.Blocks, start))
			}
		case Removed:
			must(t, src.Remove(b.Rank, e.Hashes))
		case Cleared:
			must(t, src.Clear(b.Rank))
		}
	}
}

// open is what a new stream begins with: all behind the cursors, or, asked for
// nothing, a snapshot, which is all that ever happened with the cache cleared first.
func (p *publisher) open(from []Cursor) (first []Batch) {
	if p.resume == Never {
		return nil
	}
	for rank, log := range p.logs {
		at := slices.IndexFunc(from, func(c Cursor) bool { return c.Rank == rank })
		for i, b := range log {
			if i == 0 && at < 0 {
				b.Events = append([]Event{{Kind: Cleared}}, b.Events...)
			}
			if at < 0 || b.Seq > from[at].Seq {
				first = append(first, b)
			}
		}
	}
	return first
}

// However batches are lost, repeated and mixed, what the feed has made of them in the
// end is what the ranks hold; or, where nothing is replayed, what has happened to each
// rank since the last loss.
func TestFeedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resume := Resume(rapid.IntRange(0, 2).Draw(t, "resume"))
		ranks := rapid.IntRange(1, 3).Draw(t, "ranks")
		p := newPublisher(resume, ranks)
		ix := New(Bounds{}, start)
		f := NewFeed(ix, workerID(1), resume)

		// The naive reader of an engine that replays nothing.
		naive := New(Bounds{}, start)
		of := naive.Track(workerID(1), 2)
		missed := make([]bool, ranks)

		line := []Batch{}
		obey := func(step Step) {
			for step.Do == Connect {
				if resume == ByNumber && len(step.From) > 1 {
					t.Fatalf("one number for %v", step.From)
				}
				f.Connected()
				line = p.open(step.From)
				step = Step{Do: Read}
			}
			if step.Do != Read || step.Err != nil {
				t.Fatalf("step %+v", step)
			}
		}
		deliver := func(b Batch) { obey(f.Apply(&b, start)) }
		obey(f.Begin())
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			rank := rapid.IntRange(0, ranks-1).Draw(t, "rank")
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0: // one is lost, though the stream goes on
				if b := p.happen(t, rank); resume != Never && f.ranks[rank] == nil {
					line = append(line, b) // nobody can notice the loss of a stream's first
				}
				missed[rank] = missed[rank] || resume == Never
			case 1:
				obey(f.Ended(EndOther))
			case 2:
				obey(f.Ended(EndLost))
				if resume == Never {
					must(t, of.ClearAll())
				}
			case 3: // the stream is slow
				line = append(line, p.happen(t, rank))
				if resume == Never {
					b := line[len(line)-1]
					line = line[:0]
					if missed[rank] {
						must(t, of.Clear(rank))
					}
					missed[rank] = false
					naively(t, of, &b)
					deliver(b)
				}
			case 4:
				if log := p.logs[rank]; len(log) > 0 && resume != Never { // once more
					line = append(line, log[rapid.IntRange(0, len(log)-1).Draw(t, "old")])
				}
			default:
				if len(line) > 0 {
					b := line[0]
					line = line[1:]
					deliver(b)
				}
			}
		}
		// Each rank says something more, and all that is on its way arrives.
		for rank := range ranks {
			b := p.happen(t, rank)
			if resume == Never {
				if missed[rank] {
					must(t, of.Clear(rank))
				}
				naively(t, of, &b)
			}
			line = append(line, b)
		}
		for n := 0; len(line) > 0; n++ {
			if n > 10_000 {
				t.Fatal("the feed connects for ever")
			}
			b := line[0]
			line = line[1:]
			deliver(b)
		}
		want := p.state
		if resume == Never {
			want = naive
		}
		if diff := cmp.Diff(want.dump(), ix.dump()); diff != "" {
			t.Errorf("blocks (-want +got):\n%s", diff)
		}
		check(t, ix)
	})
}
