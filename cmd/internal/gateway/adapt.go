package gateway

import (
	"context"

	"smg/bootstrap"
	"smg/bus"
	"smg/engine"
	"smg/worker"
)

// health lets selectors and the registrar probe engines. Workers have no keys of
// their own yet.
type health struct{ prober *engine.Prober }

func (h health) Health(ctx context.Context, url, endpoint string) error {
	return h.prober.Health(ctx, url, endpoint, "")
}

// discoverer lets the registrar learn what runs behind a URL.
type discoverer struct{ health }

func (d discoverer) Discover(ctx context.Context, url string) (bootstrap.Found, error) {
	info, err := d.prober.Discover(ctx, url, "")
	if err != nil {
		return bootstrap.Found{}, err
	}
	f := bootstrap.Found{Runtime: worker.Runtime(info.Runtime), Models: info.Models, Labels: info.Labels}
	if len(f.Models) == 0 && info.ModelID != engine.UnknownModel {
		f.Models = []string{info.ModelID}
	}
	return f, nil
}

// store keeps worker records in the bus's bucket.
type store struct {
	bucket *bus.Bucket[worker.ID, worker.Spec]
}

func (s store) Put(ctx context.Context, spec *worker.Spec) error { return s.bucket.Put(ctx, spec) }
