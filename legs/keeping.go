package legs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// keeping is one worker as this replica keeps it, or would.
type keeping struct {
	*worker.Keeper
	spec   *worker.Spec
	epoch  uint64 // of what the policies remember of the worker
	place  int    // in the agenda
	first  bool   // this replica comes first for the worker, and is to keep it
	reason string // of the last bad probe, for the log

	every    time.Duration // between load polls, 0 for none
	source   LoadSource    // of the stay asked, nil to make a new one
	asked    uint64
	engine   *engineLoad // what the last good poll found, nil before the first
	unpolled string      // why the last poll failed, for the log
	vetoed   bool        // as the log has it
	tally    tally
}

// attrs are who the worker is, for the log.
func (k *keeping) attrs() []any {
	return []any{slog.String("worker", k.spec.URL), slog.String("worker_id", k.spec.ID.String())}
}

// watchWorkers follows who exists until ctx ends. The workers that are there first
// are taken in together.
func (s *Service) watchWorkers(ctx context.Context) error {
	initial, synced := map[worker.ID]*worker.Spec{}, false
	bucket := bus.NewBucket(s.bus, s.cfg.Cluster.Workers())
	return bucket.Watch(ctx, bus.Events[worker.ID, worker.Spec]{
		Put: func(id worker.ID, spec *worker.Spec) {
			switch {
			case spec.Leg != s.cfg.Leg:
				delete(initial, id)
				if s.registry.Lookup(id) != nil { // it was of this leg before
					s.remove(id)
				}
			case synced:
				s.add(spec)
			default:
				initial[id] = spec
			}
		},
		Delete: func(id worker.ID) {
			delete(initial, id)
			s.remove(id)
		},
		Synced: func() {
			s.add(slices.Collect(maps.Values(initial))...)
			initial, synced = nil, true
			s.knowsWorkers()
		},
	})
}

// knowsWorkers says that this replica knows who exists. Until then it is not ready,
// however long that takes: it would refuse what ingresses, by their copies, can serve.
func (s *Service) knowsWorkers() {
	s.mu.Lock()
	s.informed = true
	s.mu.Unlock()
	s.tick(true)
}

func (s *Service) add(specs ...*worker.Spec) {
	if len(specs) == 0 {
		return
	}
	if s.cfg.Leg == worker.Regular { // elsewhere the leg's policy holds, whatever labels say
		s.book.Added(specs...)
	}
	s.registry.Put(specs...)
	s.mu.Lock()
	s.sharePins()
	for _, spec := range specs {
		k := s.keepers[spec.ID]
		if k == nil {
			k = &keeping{Keeper: worker.NewKeeper(spec.ID, s.cfg.Replica, s.cfg.Keeper.For(spec))}
			s.keepers[spec.ID] = k
			k.first = s.first(worker.WorkerKey(spec.ID))
			s.agenda.add(k)
			k.spec = spec
			k.Registered(spec.RegisteredAt)
			s.join(k)
			if rec, ok := s.registry.Record(spec.ID); ok {
				k.Hear(rec)
				k.epoch = rec.Epoch
			}
		} else {
			s.grouped = false
			if !k.spec.RegisteredAt.Equal(spec.RegisteredAt) {
				k.Registered(spec.RegisteredAt)
				s.tell(k.Replaced(s.now()))
				s.book.Replaced(spec.ID)
			}
		}
		k.spec, k.source = spec, nil
		k.Rule(s.cfg.Keeper.For(spec))
		s.agenda.plan(k)
		delete(s.gone, spec.ID)
	}
	s.publish()
	s.mu.Unlock()
	s.tick(false)
	s.look()
}

func (s *Service) remove(id worker.ID) {
	s.mu.Lock()
	if k := s.keepers[id]; k != nil {
		s.gone[id] = gone{k.spec, k.engine, k.tally, s.now()}
		s.agenda.remove(k)
	}
	delete(s.keepers, id)
	s.news = slices.DeleteFunc(s.news, func(rec worker.Record) bool { return rec.Worker == id })
	s.grouped = false
	s.mu.Unlock()
	s.registry.Remove(id)
	s.book.Removed(id)
}

// kept says whether k is still what this replica has of a worker that is registered.
// s.mu is held.
func (s *Service) kept(k *keeping) bool { return s.keepers[k.spec.ID] == k }

// tell installs what a keeper's method returned, and has it published, if it has
// to go out. s.mu is held.
func (s *Service) tell(rec worker.Record, publish bool) {
	if publish {
		s.news = append(s.news, rec)
		if k := s.keepers[rec.Worker]; k != nil {
			s.renewed(k, rec.Epoch)
		}
	}
}

// renewed has the policies forget what a worker's process held once another one is
// known to be behind its URL. s.mu is held.
func (s *Service) renewed(k *keeping, epoch uint64) {
	if k.epoch != 0 && epoch > k.epoch {
		s.book.Replaced(k.spec.ID)
	}
	k.epoch = max(k.epoch, epoch)
}

// publish installs and sends the news. Whoever calls tell calls it before giving
// s.mu back, or sees to it that newsDue fires.
func (s *Service) publish() {
	if len(s.news) == 0 {
		return
	}
	if len(s.news) == 1 {
		s.registry.Install(s.news[0]) // patches its pools, which is cheaper for one
	} else {
		s.registry.InstallAll(s.news)
	}
	s.send(s.cfg.Cluster.State(s.cfg.Leg), s.news)
	s.news = s.news[:0]
}

// send publishes records.
func (s *Service) send(to wire.Topic[wire.Records], recs []worker.Record) {
	for _, records := range wire.RecordsOf(recs, s.now()) {
		err := bus.Publish(s.bus, to, &records)
		if err != nil && !errors.Is(err, bus.ErrDisconnected) {
			s.log.Error("records of workers could not be sent", slog.Int("records", len(records)), slog.Any("error", err))
		}
	}
}

// probeDue sends the health probes whose time has come. A worker whose probe finds
// no free slot is asked in a later round.
func (s *Service) probeDue(ctx context.Context, probing *sync.WaitGroup) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.agenda.moment(now)
	for i, k := range s.agenda.kept {
		if s.agenda.probes[i] > at {
			continue
		}
		select {
		case s.probes <- struct{}{}:
		default:
			s.crowded = true
			return
		}
		epoch, due := k.ProbeDue(now)
		s.agenda.plan(k)
		if !due || k.spec.Draining() { // nobody asks whether one is well who leaves
			<-s.probes
			continue
		}
		spec, limit := k.spec, k.ProbeTimeout()
		probing.Go(func() {
			s.probe(ctx, k, epoch, spec, limit)
			<-s.probes
			s.probed()
		})
	}
}

// moves says whether another process behind a worker's URL would have to be met elsewhere,
// or by another name, than this one.
func moves(s *worker.Spec) bool {
	return s.BootstrapSource == worker.EngineSource || s.KVConnector == worker.MooncakeConnector || s.KVConnector == worker.MooncakeFound
}

// identifyTimeout bounds the question which process a worker is: whether it is well
// does not wait for that.
const identifyTimeout = time.Second

// probed has the loop look for the next probe at once, if one has found no free slot.
func (s *Service) probed() {
	s.mu.Lock()
	crowded := s.crowded
	s.crowded = false
	s.mu.Unlock()
	if crowded {
		s.look()
	}
}

// look has the loop look at once for workers that are due to be probed.
func (s *Service) look() {
	select {
	case s.poke <- struct{}{}:
	default: // told already
	}
}

// probe asks one worker, for up to limit, and tells its keeper.
func (s *Service) probe(ctx context.Context, k *keeping, epoch uint64, spec *worker.Spec, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := s.prober.Health(ctx, spec, s.cfg.Endpoint)
	f := worker.Finding{OK: err == nil, Refused: errors.Is(err, syscall.ECONNREFUSED), Moves: moves(spec)}
	if f.OK {
		f.Process = s.process(ctx, spec)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the service stops: this says nothing about the worker
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept(k) {
		return
	}
	if k.Active() {
		s.outcomes.probed(s.cfg.Leg, f.OK)
	}
	before := k.Record().Status
	rec, changed := k.Probed(epoch, f, s.now())
	s.agenda.plan(k)
	s.tell(rec, changed)
	s.publish()
	if before != rec.Status || rec.Epoch != epoch {
		s.turnedReady()
	}
	if changed && rec.Epoch != epoch {
		s.log.Info("worker was restarted", k.attrs()...)
	}
	s.logProbe(k, err, before, rec.Status)
}

// process is which process a worker is, as far as it says so in time.
func (s *Service) process(ctx context.Context, spec *worker.Spec) worker.Process {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	p, err := s.identify(ctx, spec)
	if err != nil {
		s.log.Debug("a worker does not say which process it is", slog.String("worker", spec.URL), slog.Any("error", err))
		return worker.Process{}
	}
	return p
}

// suspect has a worker probed now to which a connection was refused. s.mu is held.
func (s *Service) suspect(k *keeping, now time.Time) {
	if k.Suspect(now) {
		s.agenda.plan(k)
		s.look()
	}
}

// logProbe writes a line when a worker's status, or the reason why it fails, has
// changed.
func (s *Service) logProbe(k *keeping, err error, before, after worker.Status) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	news := reason != "" && reason != k.reason
	k.reason = reason
	attrs := append(k.attrs(), slog.String("status", after.String()))
	switch {
	case before != after && after == worker.Ready:
		s.log.Info("worker is ready", attrs...)
	case before != after:
		s.log.Warn("worker is not ready", append(attrs, slog.String("reason", reason))...)
	case news:
		s.log.Warn("worker failed a health probe", append(attrs, slog.String("reason", reason))...)
	}
}
