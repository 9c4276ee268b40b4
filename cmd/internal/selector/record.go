package selector

import (
	"context"
	"sync"
	"time"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/version"
	"smg/legs"
	"smg/record"
	"smg/worker"
)

// Selector is a leg's service, and what records it.
type Selector struct {
	*legs.Service
	recorder *record.Recorder // nil: nothing does
}

// recorder begins a recording of a leg, if the flags ask for one.
func recorder(cfg *flags.Launch, leg worker.Leg, policyName string, replica worker.ReplicaID, d Deps) (*record.Recorder, error) {
	if cfg.Record == "" {
		return nil, nil
	}
	return record.Create(cfg.Record, record.Config{
		Cluster: cfg.Cluster, Leg: leg, Policy: policyName, Replica: replica, Build: version.String(), Whole: cfg.RecordPrompts,
	}, d.Log, time.Now)
}

// Run serves until ctx ends. The recording ends after everything that it tells of.
func (s *Selector) Run(ctx context.Context) error {
	if s.recorder == nil {
		return s.Service.Run(ctx)
	}
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.recorder.Run(recording) })
	err := s.Service.Run(ctx)
	stop()
	wg.Wait()
	return err
}
