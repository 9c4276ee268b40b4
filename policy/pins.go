package policy

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/worker"
)

// undoFor is how long a choice can be taken back: longer than any attempt to reach
// a worker lasts.
const undoFor = 30 * time.Second

// batch is how much is dropped without giving the lock back.
const batch = 256

// pins remembers the workers of keys. It is safe for concurrent use. What it shares
// with other replicas is in [SharedPins].
//
// A key belongs to the pool of its model, whose lock is held from [pins.find] to
// [pins.put], so a key's choices are one after the other. The lock here guards no
// more than the map.
type pins struct {
	idle, interval time.Duration
	most           int
	size           prometheus.Gauge
	logger         *slog.Logger

	mu     sync.Mutex
	keys   map[worker.PinKey]*pin
	order  pin // list head: order.older was used last, order.newer longest ago
	swept  time.Time
	shared *sharing // nil while nobody else is told

	// Choices that may still be taken back, by lease and in their order.
	placings      map[worker.LeaseID]*placing
	first, latest *placing
}

// pin is where a key goes.
type pin struct {
	key          worker.PinKey
	workers      few
	used         time.Time
	made         *placing // the last change, until another call uses the pin
	newer, older *pin
	copied       copied
}

// placing is a change of a pin that can be taken back.
type placing struct {
	lease  worker.LeaseID
	worker worker.ID
	at     time.Time
	pin    *pin
	before few
	next   *placing
}

// newPins remembers nothing yet. Those that share deps.Registerer share the gauge.
func newPins(cfg PinConfig, deps Deps) (*pins, error) {
	size, err := register(deps.Registerer, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "smg_manual_policy_cache_entries",
		Help: "Keys whose workers are remembered, for policy manual and sticky sessions.",
	}))
	if err != nil {
		return nil, err
	}
	p := &pins{
		idle: cfg.MaxIdle, interval: cfg.EvictionInterval, most: cfg.MaxKeys, size: size, logger: deps.Logger,
		keys: map[worker.PinKey]*pin{}, placings: map[worker.LeaseID]*placing{},
	}
	p.order.newer, p.order.older = &p.order, &p.order
	return p, nil
}

// few is up to two workers of a key, in the order in which they are asked for; a
// zero id is nobody.
type few [2]worker.ID

// front puts a worker before the first, who becomes the second.
func (w few) front(id worker.ID) few {
	if w[0] == id {
		return w
	}
	return few{id, w[0]}
}

// behind puts a worker behind the last; of two the first goes.
func (w few) behind(id worker.ID) few {
	switch (worker.ID{}) {
	case w[0]:
		return few{id}
	case w[1]:
		return few{w[0], id}
	}
	return few{w[1], id}
}

// found is what is known of a key, and who of its workers can be chosen.
type found struct {
	known   bool
	workers few
	index   int // of the first that can be chosen, -1 for none
	tried   few // those that could, had this request not tried them before
}

// branch is why a worker has to be chosen anew.
func (f *found) branch() string {
	if f.known {
		return occupiedMiss
	}
	return vacant
}

// placed is the key's workers once another is chosen for it, who goes where add puts
// him. Workers that are there, and only were tried before by this request, keep the
// key: a key moves with its worker, and not with a call that failed.
func (f *found) placed(id worker.ID, add func(few, worker.ID) few) few {
	if f.tried != (few{}) {
		if f.tried[0] == id { // there was nobody else when he was chosen
			return f.tried
		}
		return few{f.tried[0], cmp.Or(f.tried[1], id)}
	}
	return add(f.workers, id)
}

// find looks a key up for a choice, which counts as a use of it.
func (p *pins) find(key worker.PinKey, ask *worker.Ask, v *worker.View) found {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.keys[key]
	if e == nil {
		return found{index: -1}
	}
	f := e.look(ask, v)
	if f.index < 0 && e.made != nil && slices.Contains(ask.Skip, e.made.worker) {
		// The request that made the pin, and alone has used it, failed there and
		// comes again.
		if !p.takeBack(e) {
			return found{index: -1}
		}
		f = e.look(ask, v)
	}
	p.use(e, ask)
	return f
}

// look finds the first of the pin's workers that can be chosen.
func (e *pin) look(ask *worker.Ask, v *worker.View) found {
	f := found{known: true, workers: e.workers, index: -1}
	tried := 0
	for _, id := range e.workers {
		i := slot(v, id)
		switch {
		case i < 0:
		case v.Admits(i):
			f.index = i
			return f
		case slices.Contains(ask.Skip, id):
			f.tried[tried] = id
			tried++
		}
	}
	return f
}

// slot is the index of a worker in a view, or -1 while it is not available.
func slot(v *worker.View, id worker.ID) int {
	if m := v.Members().Index(id); m >= 0 {
		return v.Slot(m)
	}
	return -1
}

// use notes that a call asks for a pin.
func (p *pins) use(e *pin, ask *worker.Ask) {
	if ask.Now.After(e.used) {
		e.used = ask.Now
	}
	if e.made != nil && e.made.lease != ask.Lease {
		p.keep(e)
	}
	e.unlink()
	p.pushNewest(e)
	p.refresh(e, ask.Now)
}

// put gives a key its workers, of whom id was chosen just now.
func (p *pins) put(key worker.PinKey, workers few, id worker.ID, ask *worker.Ask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.keys[key]
	if e == nil {
		e = p.add(key, ask.Now)
	}
	if e.workers == workers {
		return
	}
	m := &placing{lease: ask.Lease, worker: id, at: ask.Now, pin: e, before: e.workers}
	if e.made != nil {
		m.before = e.made.before // the same call, asked for twice
		p.keep(e)
	}
	e.workers, e.made = workers, m
	p.changed(e)
	p.placings[m.lease] = m
	if p.latest == nil {
		p.first = m
	} else {
		p.latest.next = m
	}
	p.latest = m
}

// add makes room for a key and remembers it.
func (p *pins) add(key worker.PinKey, now time.Time) *pin {
	if p.most > 0 && len(p.keys) >= p.most {
		p.retract(p.order.newer)
	}
	e := &pin{key: key, used: now}
	if sh := p.shared; sh != nil {
		if version, ok := sh.gone[key]; ok { // not after all
			delete(sh.gone, key)
			e.copied.version, e.copied.pass = version, sh.pass
		}
	}
	p.keys[key] = e
	p.pushNewest(e)
	p.size.Inc()
	return e
}

// remove forgets a pin here. [pins.retract] does everywhere.
func (p *pins) remove(e *pin) {
	p.keep(e)
	e.unlink()
	e.leaveQueue()
	delete(p.keys, e.key)
	p.size.Dec()
}

// undo takes back what the choice for a lease changed, if nobody has used it since.
func (p *pins) undo(lease worker.LeaseID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.placings[lease]; m != nil {
		p.takeBack(m.pin)
	}
}

// keep says that the last change of a pin stays.
func (p *pins) keep(e *pin) {
	if e.made != nil {
		delete(p.placings, e.made.lease)
		e.made = nil
	}
}

// takeBack undoes the last change of a pin and reports whether the pin is still
// there.
func (p *pins) takeBack(e *pin) bool {
	e.workers = e.made.before
	p.keep(e)
	if e.workers == (few{}) {
		p.retract(e)
		return false
	}
	p.changed(e)
	return true
}

// tick drops what can be taken back no more and, at intervals, the pins that were not
// used for too long.
func (p *pins) tick(now time.Time) {
	for p.settle(now) == batch {
		continue
	}
	if !p.due(now) {
		return
	}
	dropped := 0
	for {
		n, left := p.sweep(now)
		dropped += n
		if n == batch {
			continue
		}
		if dropped > 0 {
			p.logger.Info("sticky keys were idle for too long and are forgotten", "dropped", dropped, "left", left)
		}
		return
	}
}

// settle keeps the changes that were made too long ago to be taken back, not more
// than a batch.
func (p *pins) settle(now time.Time) (settled int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for settled < batch && p.first != nil && now.Sub(p.first.at) >= undoFor {
		if m := p.first; m.pin.made == m {
			p.keep(m.pin)
		}
		p.first = p.first.next
		settled++
	}
	if p.first == nil {
		p.latest = nil
	}
	return settled
}

// due says whether it is time to sweep.
func (p *pins) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.idle <= 0 || p.interval <= 0:
		return false
	case p.swept.IsZero():
		p.swept = now
	case now.Sub(p.swept) >= p.interval:
		p.swept = now
		return true
	}
	return false
}

// sweep drops idle pins, not more than a batch.
func (p *pins) sweep(now time.Time) (dropped, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for dropped < batch && len(p.keys) > 0 && now.Sub(p.order.newer.used) >= p.idle {
		p.remove(p.order.newer)
		dropped++
	}
	return dropped, len(p.keys)
}

func (p *pins) pushNewest(e *pin) {
	e.newer, e.older = &p.order, p.order.older
	e.older.newer, p.order.older = e, e
}

func (e *pin) unlink() {
	e.newer.older, e.older.newer = e.older, e.newer
	e.newer, e.older = nil, nil
}
