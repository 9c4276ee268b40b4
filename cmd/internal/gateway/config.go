package gateway

import (
	"smg/bootstrap"
	"smg/cmd/internal/flags"
	"smg/ingress"
	"smg/worker"
)

func keeperConfig(cfg *flags.Launch) worker.KeeperConfig {
	k := worker.DefaultKeeperConfig()
	k.Health = worker.HealthConfig{
		Interval: cfg.HealthCheckInterval, Timeout: cfg.HealthCheckTimeout,
		FailureThreshold: cfg.HealthFailureThreshold, SuccessThreshold: cfg.HealthSuccessThreshold,
		Disabled: cfg.DisableHealthCheck,
	}
	// A breaker without retries would only turn errors into other errors.
	k.Breaker.Disabled = true
	return k
}

func registrarConfig(cfg *flags.Launch) bootstrap.Config {
	return bootstrap.Config{
		Workers:  candidates(cfg),
		Endpoint: cfg.HealthCheckEndpoint, ProbeTimeout: cfg.HealthCheckTimeout, DisableHealth: cfg.DisableHealthCheck,
		Delay: cfg.WorkerStartupDelay, Interval: cfg.WorkerStartupCheckInterval, Timeout: cfg.WorkerStartupTimeout,
		Retry: cfg.HealthCheckInterval,
	}
}

func ingressConfig(cfg *flags.Launch) ingress.Config {
	c := ingress.DefaultConfig()
	c.MaxPayloadBytes = cfg.MaxPayloadSize
	c.MaxBufferedBytes = cfg.MaxBufferedBytesTotal
	c.MaxJSONDepth = cfg.MaxJSONDepth
	c.MaxHeaderBytes = cfg.MaxHeaderBytes
	c.ReadHeaderTimeout = cfg.ReadHeaderTimeout
	c.RequestTimeout = cfg.RequestTimeout
	c.Grace = cfg.ShutdownGracePeriod
	c.RoutingKeyHeaders = cfg.RoutingKeyHeaders
	return c
}

// candidates are the workers that the command line names.
func candidates(cfg *flags.Launch) []bootstrap.Candidate {
	var all []bootstrap.Candidate
	for _, u := range cfg.WorkerURLs {
		all = append(all, bootstrap.Candidate{URL: u, Leg: worker.Regular})
	}
	return all
}
