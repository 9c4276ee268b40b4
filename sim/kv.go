package sim

// BlockHash identifies the content of one full KV block together with
// everything before it: equal hashes mean equal prefixes.
type BlockHash uint64

// block is a cached KV block. It stays in the pool after its last holder has
// left, until its memory is wanted for something else.
type block struct {
	hash       BlockHash
	refs       int
	prev, next *block // neighbours in the idle list while refs is 0
}

// pool hands out KV blocks. Each block is in exactly one of four states, and
// free + private + held + idle is always the total:
//
//	free     holds nothing
//	private  belongs to one sequence and is not (yet) shareable
//	held     cached, used by at least one sequence
//	idle     cached, used by nobody, evictable
type pool struct {
	total   int
	free    int
	private int
	held    int
	idle    int
	cached  map[BlockHash]*block
	lru     block // sentinel of a ring: next is the oldest idle block

	told   bool         // changes of cached are noted
	change []BlockEvent // since they were read last
}

// BlockEvent is a change of what an engine has cached.
type BlockEvent struct {
	Kind BlockEventKind
	Hash BlockHash // but for Cleared
}

// BlockEventKind is what happened to a block.
type BlockEventKind uint8

// The changes. A block is stored after the one before it in its prompt.
const (
	Stored BlockEventKind = iota + 1
	Evicted
	Cleared // of all that was cached
)

// note remembers a change, if anybody wants to know.
func (p *pool) note(kind BlockEventKind, h BlockHash) {
	if p.told {
		p.change = append(p.change, BlockEvent{kind, h})
	}
}

func newPool(total int) *pool {
	p := &pool{total: total, free: total, cached: make(map[BlockHash]*block)}
	p.lru.prev, p.lru.next = &p.lru, &p.lru
	return p
}

// available counts the blocks that take can hand out.
func (p *pool) available() int { return p.free + p.idle }

// used counts the blocks that sequences hold.
func (p *pool) used() int { return p.private + p.held }

// match returns how many leading hashes are cached, and how many of those
// blocks are idle: holding them takes them away from what is available.
func (p *pool) match(hashes []BlockHash) (matched, idle int) {
	for _, h := range hashes {
		b, ok := p.cached[h]
		if !ok {
			break
		}
		if b.refs == 0 {
			idle++
		}
		matched++
	}
	return matched, idle
}

// hold takes a reference to the cached block with hash h.
func (p *pool) hold(h BlockHash) *block {
	b := p.cached[h]
	if b.refs == 0 {
		b.prev.next, b.next.prev = b.next, b.prev
		b.prev, b.next = nil, nil
		p.idle--
		p.held++
	}
	b.refs++
	return b
}

// drop gives a reference back. The block stays cached; the one dropped last is
// evicted last.
func (p *pool) drop(b *block) {
	b.refs--
	if b.refs > 0 {
		return
	}
	p.held--
	p.idle++
	b.prev, b.next = p.lru.prev, &p.lru
	b.prev.next, b.next.prev = b, b
}

// take hands out n private blocks, evicting idle ones as needed, or takes none
// and reports false.
func (p *pool) take(n int) bool {
	if n > p.available() {
		return false
	}
	for p.free < n {
		p.evict(p.lru.next)
	}
	p.free -= n
	p.private += n
	return true
}

func (p *pool) evict(b *block) {
	b.prev.next, b.next.prev = b.next, b.prev
	delete(p.cached, b.hash)
	p.idle--
	p.free++
	p.note(Evicted, b.hash)
}

// give returns n private blocks.
func (p *pool) give(n int) {
	p.private -= n
	p.free += n
}

// publish makes one private block shareable under h and returns it held. When
// another sequence has published the same content already, the private copy is
// freed and the existing block is held instead.
func (p *pool) publish(h BlockHash) *block {
	if _, ok := p.cached[h]; ok {
		p.give(1)
		return p.hold(h)
	}
	b := &block{hash: h, refs: 1}
	p.cached[h] = b
	p.private--
	p.held++
	p.note(Stored, h)
	return b
}

// flush evicts everything that nobody uses.
func (p *pool) flush() {
	for p.idle > 0 {
		p.evict(p.lru.next)
	}
}
