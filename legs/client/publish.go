package client

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"smg/bus"
	"smg/worker"
)

// tickEvery is the period at which silent replicas are noticed.
const tickEvery = 250 * time.Millisecond

// publish sends a leg's lease stream until ctx ends: batches when they are full or
// old enough, and a beat every second; four of them, which are all leases, after a
// reconnect, and when a replica has come.
func (c *Client) publish(ctx context.Context, leg worker.Leg, l *leg) {
	again := make(chan struct{}, 1) // holds one: beats first after a reconnect
	remove := c.bus.OnReconnect(func() {
		l.ranking.Reconnected(c.now())
		select {
		case again <- struct{}{}:
		default: // due already
		}
	})
	defer remove()
	beat, tick := time.NewTicker(worker.BeatInterval), time.NewTicker(tickEvery)
	defer beat.Stop()
	defer tick.Stop()
	var pace worker.Loop
	c.beat(l)
	for {
		select {
		case <-ctx.Done():
			c.flush(l)
			return
		case <-l.due.C:
			c.flush(l)
		case <-l.full:
			c.flush(l)
		case <-beat.C:
			for range l.newcomers.quarters(c.now()) {
				c.beat(l)
			}
		case <-again:
			for range worker.Quarters {
				c.beat(l)
			}
		case <-tick.C:
			now := c.now()
			if stage, due := l.recall.tick(now); due {
				c.askSnapshot(leg, stage)
			}
			if l.ranking.Tick(now, pace.Late(now, tickEvery)) {
				l.forget()
			}
		}
	}
}

func (c *Client) flush(l *leg) {
	if b, ok := l.writer.Flush(); ok {
		c.send(l, &b)
	}
}

func (c *Client) beat(l *leg) {
	b, more := l.writer.Beat(), true
	for more {
		c.send(l, &b)
		b, more = l.writer.More()
	}
}

// send publishes a batch. One that is lost is mended by beats.
func (c *Client) send(l *leg, b *worker.Batch) {
	err := bus.Publish(c.bus, l.leases, b)
	if err != nil && !errors.Is(err, bus.ErrDisconnected) {
		c.log.Error("leases could not be announced", slog.String("leg", b.Leg.String()), slog.Any("error", err))
	}
}
