package gateway

import (
	"context"

	"smg/bootstrap"
	"smg/cmd/internal/selector"
	"smg/engine"
	"smg/worker"
)

// discoverer lets the registrar learn what runs behind a URL.
type discoverer struct {
	selector.Prober
	backend string // what runs behind a URL that does not say it
}

func (d discoverer) Discover(ctx context.Context, s *worker.Spec) (bootstrap.Found, error) {
	key, err := d.Keys.Open(s)
	if err != nil {
		return bootstrap.Found{}, err
	}
	info, err := d.Engines.Discover(ctx, s.Base(), key)
	if err != nil {
		return bootstrap.Found{}, err
	}
	f := bootstrap.Found{Runtime: d.runtime(info), Models: info.Models, Labels: info.Labels}
	if len(f.Models) == 0 && info.ModelID != engine.UnknownModel {
		f.Models = []string{info.ModelID}
	}
	return f, nil
}

// runtime is what an engine says that it is, or else what the command line says.
func (d discoverer) runtime(info engine.Info) worker.Runtime {
	said, assumed := worker.Runtime(info.Runtime), worker.Runtime(d.backend)
	if said != worker.Generic || info.Labels["owned_by"] == "llamacpp" || assumed != worker.SGLang && assumed != worker.VLLM {
		return said
	}
	return assumed
}

func (d discoverer) MooncakeEngines(ctx context.Context, url string) (map[int]string, error) {
	return d.Engines.MooncakeEngines(ctx, url)
}
