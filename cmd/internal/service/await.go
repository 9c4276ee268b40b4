package service

import (
	"context"
	"log/slog"
	"time"

	"smg/bus"
	"smg/cmd/internal/flags"
)

const (
	// lookEvery is how often a first connection is looked for, tellEvery how often it
	// is told that there is none yet.
	lookEvery = 50 * time.Millisecond
	tellEvery = 30 * time.Second
)

// AwaitBus tells how long the message bus is waited for at the start, and what to do
// about it. The services run meanwhile, as well as they can.
func AwaitBus(conn *bus.Conn, cfg flags.Bus, hint string, log *slog.Logger) Stage {
	return Stage{Name: "message bus", Run: func(ctx context.Context) error {
		began := time.Now()
		waited := func() slog.Attr { return slog.Duration("waited", time.Since(began).Round(time.Millisecond)) }
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		var told time.Time
		for !conn.Connected() {
			if time.Since(told) >= tellEvery {
				log.Warn("waiting for NATS", slog.String("server", cfg.Servers()), waited(), slog.String("hint", hint))
				told = time.Now()
			}
			select {
			case <-ctx.Done():
				return nil
			case <-look.C:
			}
		}
		if !told.IsZero() {
			log.Info("NATS is there", waited())
		}
		look.Stop()
		<-ctx.Done()
		return nil
	}}
}
