package legs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"smg/policy/kvindex"
	"smg/worker"
)

// How a stream of KV-cache events fails for a reason of its own.
var (
	// ErrNoEvents: the engine publishes none.
	ErrNoEvents = errors.New("the engine publishes no KV-cache events")
	// ErrEventsLost: the engine has no more what was not read, or counts anew.
	ErrEventsLost = errors.New("KV-cache events were lost")
	// ErrEventData: one message could not be read. The stream goes on.
	ErrEventData = errors.New("a message that is no KV-cache events")
)

// EventSource subscribes to what one worker's engine says of its KV cache. It is used by
// one goroutine at a time.
type EventSource interface {
	// Resume is what can be had of events that were missed.
	Resume() kvindex.Resume
	// Open begins a stream behind the cursors, as [kvindex.Step] has them. It may take
	// until ctx ends.
	Open(ctx context.Context, from []kvindex.Cursor) (EventStream, error)
}

// EventStream is a stream of events. It must be closed. The errors of Next are final, but
// for [ErrEventData].
type EventStream interface {
	Next(ctx context.Context) (kvindex.Batch, error)
	Close()
}

// followEvery is how often it is looked whose events are to be followed.
const followEvery = 500 * time.Millisecond

// stream is one worker as one model's workers.
type stream struct {
	worker worker.ID
	model  string
}

// following is a stream that is followed, for as long as the same process is behind the
// worker's URL.
type following struct {
	spec   *worker.Spec
	epoch  uint64
	index  *kvindex.Index
	source EventSource
	stop   context.CancelFunc
	over   atomic.Bool // it is to be followed anew, if it still is at all
	none   atomic.Bool // the process publishes none
	reason string      // of the last failure, for the log
}

// followEvents follows the events of workers until ctx ends. Every replica follows all of
// its workers: each answers for some prompts, and has to know all blocks.
func (s *Service) followEvents(ctx context.Context) {
	if s.sources == nil {
		return
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	all := map[stream]*following{}
	var running sync.WaitGroup
	defer running.Wait()
	for {
		s.follow(ctx, all, &running)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// follow begins and ends streams. One begins with the first time that its worker is
// ready, and ends with the worker or its process.
func (s *Service) follow(ctx context.Context, all map[stream]*following, running *sync.WaitGroup) {
	wanted := make(map[stream]bool, len(all))
	for _, w := range s.registry.Workers() {
		if w.Spec.Leg != s.cfg.Leg {
			continue
		}
		for g := range groupsOf(w.Spec) {
			index := s.book.Events(g.model)
			if index == nil {
				continue
			}
			key := stream{w.Spec.ID, g.model}
			f := all[key]
			wanted[key] = f != nil && f.stands(w, index)
			if wanted[key] || w.Status() != worker.Ready {
				continue
			}
			source := s.sources(w.Spec)
			if source == nil {
				continue
			}
			if f != nil {
				f.stop()
			}
			f = &following{spec: w.Spec, epoch: w.Record.Epoch, index: index, source: source}
			all[key], wanted[key] = f, true
			var life context.Context
			life, f.stop = context.WithCancel(ctx)
			running.Go(func() { s.followOne(life, f) })
		}
	}
	for key, f := range all {
		if wanted[key] {
			continue
		}
		f.stop()
		delete(all, key)
		if s.registry.Lookup(key.worker) == nil {
			s.outcomes.events.forget(f.spec.URL)
		}
	}
}

// stands says whether f is what is to be followed of a worker.
func (f *following) stands(w *worker.Worker, index *kvindex.Index) bool {
	return !f.over.Load() && f.epoch == w.Record.Epoch && (f.index == index || f.none.Load()) &&
		(f.spec == w.Spec || f.spec.Mode == w.Spec.Mode && f.spec.DPSize == w.Spec.DPSize && maps.Equal(f.spec.Labels, w.Spec.Labels))
}

// followOne follows one stream until ctx ends, or for as long as the engine publishes and
// the policy listens.
func (s *Service) followOne(ctx context.Context, f *following) {
	feed := kvindex.NewFeed(f.index, f.spec.ID, f.source.Resume())
	defer feed.Close()
	step := feed.Begin()
	for step.Do == kvindex.Connect {
		pause(ctx, step.After)
		if ctx.Err() != nil {
			return
		}
		step = s.readEvents(ctx, f, feed, step.From)
	}
	// Who was forgotten is followed anew; an engine without events is not.
	if f.reason == noEvents {
		f.none.Store(true)
	} else {
		f.over.Store(true)
	}
}

// readEvents opens a stream and reads it until something else is to be done.
func (s *Service) readEvents(ctx context.Context, f *following, feed *kvindex.Feed, from []kvindex.Cursor) kvindex.Step {
	in, err := f.source.Open(ctx, from)
	if err != nil {
		return s.eventsEnded(ctx, f, feed, err)
	}
	defer in.Close()
	defer s.outcomes.events.opened(f.spec.URL)()
	feed.Connected()
	if f.reason != "" {
		s.log.Info("KV-cache events of a worker are followed again", f.attrs()...)
	} else {
		s.log.Debug("KV-cache events of a worker are followed", f.attrs()...)
	}
	f.reason = ""
	odd := false // something was told of this connection
	for {
		b, err := in.Next(ctx)
		if errors.Is(err, ErrEventData) && ctx.Err() == nil {
			s.outcomes.events.failed(f.spec.URL, badData)
			if !odd {
				odd = true
				s.log.Warn("a message of a worker is no KV-cache events", append(f.attrs(), slog.Any("error", err))...)
			}
			continue
		}
		if err != nil {
			return s.eventsEnded(ctx, f, feed, err)
		}
		step := feed.Apply(&b, s.now())
		if step.Err != nil && !odd {
			odd = true
			s.log.Debug("KV-cache events of a worker are of no use", append(f.attrs(), slog.Any("error", step.Err))...)
		}
		if step.Do == kvindex.Connect {
			s.outcomes.events.failed(f.spec.URL, gap)
		}
		if step.Do != kvindex.Read {
			return step
		}
	}
}

// eventsEnded is what to do after a stream has ended, or did not open.
func (s *Service) eventsEnded(ctx context.Context, f *following, feed *kvindex.Feed, err error) kvindex.Step {
	if ctx.Err() != nil {
		return kvindex.Step{Do: kvindex.Stop}
	}
	end, reason := kvindex.EndOther, broken
	switch {
	case errors.Is(err, ErrNoEvents):
		end, reason = kvindex.EndUnimplemented, noEvents
	case errors.Is(err, ErrEventsLost):
		end, reason = kvindex.EndLost, lost
	}
	s.outcomes.events.failed(f.spec.URL, reason)
	if f.reason != reason {
		s.log.Warn("KV-cache events of a worker are not followed", append(f.attrs(), slog.String("reason", reason), slog.Any("error", err))...)
	}
	f.reason = reason
	return feed.Ended(end)
}

// attrs are who the worker is, for the log.
func (f *following) attrs() []any {
	return []any{slog.String("worker", f.spec.URL), slog.String("worker_id", f.spec.ID.String())}
}
