package client

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// recall is a [worker.Recall] that is safe for concurrent use.
type recall struct {
	mu sync.Mutex
	r  worker.Recall
}

func (r *recall) begin(now time.Time) worker.RecallStage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.Begin(now)
}

func (r *recall) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.Answered()
}

func (r *recall) tick(now time.Time) (stage worker.RecallStage, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.Tick(now)
}

// askSnapshots asks for what the keepers of every leg have said. It waits for nobody:
// somebody tells it, and until then the own copy serves.
func (c *Client) askSnapshots() {
	for i, l := range c.legs {
		if l != nil {
			c.askSnapshot(worker.Leg(i), l.recall.begin(c.now()))
		}
	}
}

func (c *Client) askSnapshot(leg worker.Leg, stage worker.RecallStage) {
	ask := wire.Snapshot{Asker: c.cfg.Incarnation, Stage: stage}
	if err := bus.Publish(c.bus, c.cfg.Cluster.Snapshot(leg), &ask); err != nil && !errors.Is(err, bus.ErrDisconnected) {
		c.log.Error("nobody could be asked for the records of workers", slog.String("leg", leg.String()), slog.Any("error", err))
	}
}

// onSnapshot tells one who asks and hears of no replica: this copy may be all that is
// left of what a leg's replicas have known.
func (c *Client) onSnapshot(leg worker.Leg, ask *wire.Snapshot) {
	if ask.Asker == c.cfg.Incarnation || !c.legs[leg].ranking.RecallsCopy(ask.Stage, ask.Asker) {
		return
	}
	to := c.cfg.Cluster.SnapshotOf(leg, ask.Asker)
	for _, records := range wire.RecordsOf(c.registry.Records(leg), c.now()) {
		c.tell(to, &records)
	}
}

// tell publishes records.
func (c *Client) tell(to wire.Topic[wire.Records], records *wire.Records) {
	if err := bus.Publish(c.bus, to, records); err != nil && !errors.Is(err, bus.ErrDisconnected) {
		c.log.Error("records of workers could not be passed on", slog.Any("error", err))
	}
}

// missed asks for a snapshot because something that a keeper said was missed, unless
// that was done so lately that the keepers who are left have not repeated themselves
// since.
func (c *Client) missed(l *leg, leg worker.Leg, now time.Time) {
	last := l.recalled.Load()
	if now.UnixNano()-last >= int64(worker.RecordRepeat) && l.recalled.CompareAndSwap(last, now.UnixNano()) {
		c.askSnapshot(leg, l.recall.begin(now))
	}
}
