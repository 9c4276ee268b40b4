// Package ring is the consistent hash ring that keys are placed on. Every replica
// and every version that knows the same worker URLs places every key alike, so the
// hash, the number of points per URL and their names are fixed.
//
// It knows strings and 64-bit positions. It does not know workers, which of them
// can be chosen, or where keys come from.
package ring

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"

	"lukechampine.com/blake3"
)

// pointsPerURL is part of the placement that other parties rely on.
const pointsPerURL = 150

// Ring places keys on the owners of URLs. It is immutable and safe for concurrent
// use. The memory is about 15 bytes for each of the 150 points of a URL.
type Ring struct {
	urls []string

	// The points in ascending order, as parallel arrays: a search reads positions
	// alone.
	positions []uint64
	owners    []int32

	// starts[b] is the first point whose top bits are b or more. Positions are
	// evenly spread, so a search looks at a few points whatever the ring's size.
	starts []int32
	shift  uint8

	distinct int // owners with points
}

type point struct {
	position uint64
	owner    int32
}

// New is the ring over urls. A point's owner is the index of its URL; a URL that is
// listed more than once belongs to the first.
func New(urls []string) *Ring {
	return (&Ring{}).Update(urls)
}

// Update is the ring over urls, exactly as [New] makes it, at less cost the more
// URLs it shares with r: their points are not hashed and sorted again.
func (r *Ring) Update(urls []string) *Ring {
	next := &Ring{urls: slices.Clone(urls)}
	index := make(map[string]int32, len(urls))
	for i, u := range next.urls {
		if _, listed := index[u]; !listed {
			index[u] = int32(i)
		}
	}
	next.distinct = len(index)

	renamed := make([]int32, len(r.urls)) // r's owner → next's owner, or -1
	for i, u := range r.urls {
		renamed[i] = -1
		if j, kept := index[u]; kept {
			renamed[i] = j
			delete(index, u)
		}
	}
	fresh := make([]point, 0, len(index)*pointsPerURL)
	for u, i := range index {
		fresh = appendPoints(fresh, u, i)
	}
	next.merge(r, renamed, next.sort(fresh))
	next.indexPoints()
	return next
}

func appendPoints(points []point, url string, owner int32) []point {
	name := append(make([]byte, 0, len(url)+4), url...)
	name = append(name, '#')
	stem := len(name)
	for v := range pointsPerURL {
		name = strconv.AppendInt(name[:stem], int64(v), 10)
		points = append(points, point{Position(name), owner})
	}
	return points
}

// order breaks a tie of positions by URL, so that it does not depend on the order
// in which URLs were listed.
func (r *Ring) order(a, b point) int {
	if a.position != b.position {
		return cmp.Compare(a.position, b.position)
	}
	return cmp.Compare(r.urls[a.owner], r.urls[b.owner])
}

// sort orders points; it may use their space. Positions are evenly spread, so
// dealing them out by their top bits leaves only short runs to compare.
func (r *Ring) sort(points []point) []point {
	const topBits, worthIt = 16, 1 << 15
	if len(points) < worthIt {
		slices.SortFunc(points, r.order)
		return points
	}
	var ends [1 << topBits]int32
	for _, p := range points {
		ends[p.position>>(64-topBits)]++
	}
	var sum int32
	for b, count := range ends {
		ends[b] = sum
		sum += count
	}
	sorted := make([]point, len(points))
	for _, p := range points {
		b := p.position >> (64 - topBits)
		sorted[ends[b]] = p
		ends[b]++
	}
	var start int32
	for _, end := range ends {
		slices.SortFunc(sorted[start:end], r.order)
		start = end
	}
	return sorted
}

// merge fills r with the points of old that have a new owner, and the fresh ones.
func (r *Ring) merge(old *Ring, renamed []int32, fresh []point) {
	n := r.distinct * pointsPerURL
	r.positions = make([]uint64, 0, n)
	r.owners = make([]int32, 0, n)
	for i, position := range old.positions {
		p := point{position, renamed[old.owners[i]]}
		if p.owner < 0 {
			continue
		}
		for len(fresh) > 0 && r.order(fresh[0], p) < 0 {
			r.append(fresh[0])
			fresh = fresh[1:]
		}
		r.append(p)
	}
	for _, p := range fresh {
		r.append(p)
	}
}

func (r *Ring) append(p point) {
	r.positions = append(r.positions, p.position)
	r.owners = append(r.owners, p.owner)
}

// indexPoints makes starts: a power of two of slots, one for one to two points.
func (r *Ring) indexPoints() {
	slots := 1 << max(bits.Len(uint(len(r.positions)))-1, 1)
	r.shift = uint8(64 - bits.Len(uint(slots-1)))
	r.starts = make([]int32, slots)
	slot := 0
	for i, position := range r.positions {
		for ; slot <= int(position>>r.shift); slot++ {
			r.starts[slot] = int32(i)
		}
	}
	for ; slot < slots; slot++ {
		r.starts[slot] = int32(len(r.positions))
	}
}

// Len is the number of URLs that the ring was made of.
func (r *Ring) Len() int { return len(r.urls) }

// Position is where key lies: the first 8 bytes, little-endian, of its BLAKE3.
func Position(key []byte) uint64 {
	sum := blake3.Sum256(key)
	return binary.LittleEndian.Uint64(sum[:8])
}

// First walks clockwise from position, itself included, and returns the first owner
// that ok accepts, or -1 when it accepts none. Each owner is tested at most once.
// It allocates nothing while there are no more than 16,384 owners.
func (r *Ring) First(position uint64, ok func(owner int) bool) int {
	n := len(r.positions)
	if n == 0 {
		return -1
	}
	i := r.search(position)
	// Nearly always one of the first few owners will do, and a short list is
	// cheaper to keep than a bit for every owner.
	var tested [8]int32
	count := 0
	for ; ; i++ { // ends: some owner will do, or all have been tested
		if i == n {
			i = 0
		}
		owner := r.owners[i]
		if slices.Contains(tested[:count], owner) {
			continue
		}
		if count == len(tested) {
			return r.firstOfMany(i, tested[:], ok)
		}
		if ok(int(owner)) {
			return int(owner)
		}
		tested[count] = owner
		if count++; count == r.distinct {
			return -1
		}
	}
}

// firstOfMany goes on from point i; the tested owners were refused.
func (r *Ring) firstOfMany(i int, tested []int32, ok func(owner int) bool) int {
	var room [256]uint64
	seen := room[:]
	if need := (len(r.urls) + 63) / 64; need > len(room) {
		seen = make([]uint64, need) // more than 16,384 workers
	}
	for _, owner := range tested {
		seen[owner/64] |= 1 << (owner % 64)
	}
	for left := r.distinct - len(tested); left > 0; i++ {
		if i == len(r.owners) {
			i = 0
		}
		owner := r.owners[i]
		if seen[owner/64]&(1<<(owner%64)) != 0 {
			continue
		}
		if ok(int(owner)) {
			return int(owner)
		}
		seen[owner/64] |= 1 << (owner % 64)
		left--
	}
	return -1
}

// search is the first point at or after position; it may be one past the last.
func (r *Ring) search(position uint64) int {
	i := int(r.starts[position>>r.shift])
	for i < len(r.positions) && r.positions[i] < position {
		i++
	}
	return i
}
