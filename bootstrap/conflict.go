package bootstrap

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strconv"

	"smg/worker"
)

// sharedLabel is the label of workers that may have one bootstrap address, since a
// server beside them answers there for all.
const sharedLabel = "shared_bootstrap"

// sameAddress says whether decode workers could not tell a from b, who is at the
// address. Ranks of one engine are told apart by their number.
func sameAddress(at address, a, b *worker.Spec) bool {
	other, ok := addressOf(a)
	return ok && at == other && a.Base() != b.Base() && (!Shares(a) || !Shares(b))
}

// Shares says whether a worker may have the bootstrap address of others.
func Shares(s *worker.Spec) bool { return s.Labels[sharedLabel] == "true" }

// mooncake is the connector whose prefill engines are met at a port of their own where
// nothing else is said.
const (
	mooncake     = "MooncakeConnector"
	mooncakePort = 8998
)

// addressOf is where decode workers really meet s; false if nowhere.
func addressOf(s *worker.Spec) (address, bool) {
	port := s.BootstrapPort
	if port == 0 && s.Leg == worker.Prefill && s.KVConnector == mooncake {
		port = mooncakePort
	}
	return address{s.BootstrapHost, port}, port != 0
}

// conflict says who had the bootstrap address of s before, "" for nobody. r.mu is
// held.
func (r *Registrar) conflict(s *worker.Spec) string {
	at, ok := addressOf(s)
	if !ok {
		return "" // a fleet without bootstrap addresses is not looked through for each of its workers
	}
	var first *worker.Spec
	for o := range r.others(s.ID) {
		if sameAddress(at, o, s) && o.Compare(s) < 0 && (first == nil || o.Compare(first) < 0) {
			first = o
		}
	}
	return told(first, s)
}

// owners are the first workers of each bootstrap address: among all of them, and among
// those that share it with nobody.
type owners map[address]*[2]firsts

// firsts are the first worker, and the first that is no rank of the same engine.
type firsts struct{ first, other *worker.Spec }

func (f *firsts) add(s *worker.Spec) {
	before := func(t *worker.Spec) bool { return t == nil || s.Compare(t) < 0 }
	switch {
	case before(f.first):
		if f.first != nil && f.first.Base() != s.Base() {
			f.other = f.first
		}
		f.first = s
	case f.first.Base() != s.Base() && before(f.other):
		f.other = s
	}
}

// address is a bootstrap address.
type address struct {
	host string
	port uint16
}

// owners are those of now. r.mu is held.
func (r *Registrar) owners() owners {
	all := owners{}
	for s := range r.others(worker.ID{}) {
		at, ok := addressOf(s)
		if !ok {
			continue
		}
		of := all[at]
		if of == nil {
			of = &[2]firsts{}
			all[at] = of
		}
		of[0].add(s)
		if !Shares(s) {
			of[1].add(s)
		}
	}
	return all
}

// conflict is what [Registrar.conflict] says, at a cost that does not depend on the
// number of workers.
func (all owners) conflict(s *worker.Spec) string {
	at, ok := addressOf(s)
	if !ok || all[at] == nil {
		return ""
	}
	of := all[at][0]
	if Shares(s) {
		of = all[at][1]
	}
	first := of.first
	if first != nil && first.Base() == s.Base() {
		first = of.other
	}
	if first == nil || first.Compare(s) >= 0 {
		return ""
	}
	return told(first, s)
}

// told says that first had the address of s before, if it is somebody.
func told(first, s *worker.Spec) string {
	if first == nil {
		return ""
	}
	at, _ := addressOf(s)
	return "bootstrap_port_conflict: " + first.URL + " has the bootstrap address " + at.host + ":" + strconv.Itoa(int(at.port)) + " already"
}

// others are all workers but one that have a place in the order of workers: those
// who are registered, by whomever, and those whom the command line names. r.mu is
// held.
func (r *Registrar) others(id worker.ID) iter.Seq[*worker.Spec] {
	return func(yield func(*worker.Spec) bool) {
		for other, s := range r.own {
			if other != id && !yield(s) {
				return
			}
		}
		for other, s := range r.heard {
			if other != id && r.own[other] == nil && !yield(s) {
				return
			}
		}
		for other, j := range r.jobs {
			if other != id && !j.asked.RegisteredAt.IsZero() && r.own[other] == nil && r.heard[other] == nil && !yield(j.asked) {
				return
			}
		}
	}
}

// settle stores the workers registered here anew of whom it has changed whether
// somebody else has their bootstrap address.
func (r *Registrar) settle(ctx context.Context) {
	r.writing.Lock() // a worker that is being removed must not come back
	defer r.writing.Unlock()
	var changed []*worker.Spec
	r.mu.Lock()
	all := r.owners()
	for _, s := range r.own {
		if unsupported(s) != "" {
			continue // for good
		}
		if c := all.conflict(s); c != s.Conflict {
			s = s.Clone()
			s.Conflict = c
			changed = append(changed, s)
		}
	}
	r.mu.Unlock()
	for _, s := range changed {
		if err := r.rewrite(ctx, s); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errReplaced) { // what replaces it pokes anew
				r.log.Error("what has become of a bootstrap conflict could not be stored", slog.String("worker", s.URL), slog.Any("error", err))
			}
			continue
		}
		r.mu.Lock()
		if old := r.own[s.ID]; old != nil && old.RegisteredAt.Equal(s.RegisteredAt) && old.Revision == s.Revision {
			r.own[s.ID] = s
		}
		r.mu.Unlock()
		r.tell(s)
	}
}

// tell logs what a conflict, or its end, means.
func (r *Registrar) tell(s *worker.Spec) {
	if s.Conflict == "" {
		r.log.Info("worker may be chosen: nobody else has its bootstrap address any more", slog.String("worker", s.URL))
		return
	}
	if misplaced(s) != "" {
		r.log.Warn("worker will not be chosen", slog.String("worker", s.URL), slog.String("reason", s.Conflict),
			slog.String("hint", "register it for the leg that its engine was started for, or start the engine with another --disaggregation-mode"))
		return
	}
	if unsupported(s) != "" {
		r.log.Warn("worker will not be chosen", slog.String("worker", s.URL), slog.String("reason", s.Conflict),
			slog.String("hint", "have a gateway without disaggregation serve it, or register it with the runtime_type that it has"))
		return
	}
	r.log.Warn("worker will not be chosen", slog.String("worker", s.URL), slog.String("reason", s.Conflict),
		slog.String("hint", "start one of the two engines with another bootstrap port, or label both "+sharedLabel+"=true if they share a server"))
}
