package client

import (
	"slices"

	"smg/worker"
)

// Connected says whether there is a connection to the message bus now.
func (c *Client) Connected() bool { return c.bus.Connected() }

// Status is how selection stands, a leg each, in the order of the legs.
func (c *Client) Status() []worker.LegStatus {
	now := c.now()
	var all []worker.LegStatus
	for i, l := range c.legs {
		if l == nil {
			continue
		}
		s := worker.LegStatus{Leg: worker.Leg(i), Degraded: l.degraded.Load(), Leases: l.writer.Open(), Waiting: int(l.waiting.Load())}
		s.Policy, _ = l.policy.Load().(string)
		ids := l.ranking.Rank(0, nil)
		slices.Sort(ids)
		for _, id := range ids {
			_, local := l.local[id]
			s.Replicas = append(s.Replicas, worker.ReplicaStatus{ID: id, Local: local, Excluded: l.excluded.Excluded(id, now)})
		}
		all = append(all, s)
	}
	return all
}
