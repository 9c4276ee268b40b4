package study

import "time"

// busStream sets the chance of the bus apart from that of the policies, which are
// numbered from 0.
const busStream = 1 << 32

// publish brings a message of the bus to replicas, to each after a time of its own
// and not at all if it is lost. An ask and its answer do not go this way: one that is
// lost is asked again, which is no matter of who knows what.
func (r *run) publish(to []*selector, deliver func(*selector)) {
	for _, s := range to {
		delay := r.cfg.Bus
		if !r.cfg.Private {
			if r.cfg.Lost > 0 && r.chance.Float64() < r.cfg.Lost {
				continue
			}
			if r.cfg.Jitter > 0 {
				delay += time.Duration(r.chance.Int64N(int64(r.cfg.Jitter) + 1))
			}
		}
		r.agenda.add(r.now+delay, func() { deliver(s) })
	}
}
