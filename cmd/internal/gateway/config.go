package gateway

import (
	"fmt"

	"smg/bootstrap"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/keys"
	"smg/cmd/internal/version"
	"smg/ingress"
	"smg/worker"
)

// registrarConfig is what is to be registered. The workers of the command line have the
// API's key for theirs.
func registrarConfig(cfg *flags.Launch, ring *keys.Ring) (bootstrap.Config, error) {
	all := candidates(cfg)
	for i := range all {
		s, err := bootstrap.SpecOf(all[i].URL, all[i].Leg)
		if err != nil {
			return bootstrap.Config{}, err
		}
		if all[i].SealedKey, err = ring.Seal(s, string(cfg.Auth.APIKey)); err != nil {
			return bootstrap.Config{}, fmt.Errorf("worker %s: %w", s.URL, err)
		}
	}
	return bootstrap.Config{
		Workers:  all,
		Endpoint: cfg.HealthCheckEndpoint, ProbeTimeout: cfg.HealthCheckTimeout, DisableHealth: cfg.DisableHealthCheck, DPAware: cfg.Sharing.DPAware,
		Delay: cfg.WorkerStartupDelay, Interval: cfg.WorkerStartupCheckInterval, Timeout: cfg.WorkerStartupTimeout,
		Retry: cfg.HealthCheckInterval, Settle: cfg.Models.DrainSettle, RemoveFailed: cfg.Models.RemoveUnhealthy,
	}, nil
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
	c.Mode, c.Multi = modeOf(cfg), cfg.EnableIGW
	c.PD = sharingConfig(&cfg.Sharing)
	c.Version = version.String()
	c.CORS.Origins = cfg.Requests.CORSOrigins
	c.Access.LogRequests = cfg.Trace.LogRequests
	if h := cfg.Requests.RequestIDHeaders; h != nil {
		c.Access.RequestIDHeaders = h
	}
	if b := cfg.Trace.DurationBuckets; b != nil {
		c.Access.DurationBuckets = b
	}
	c.Upload = ingress.UploadConfig{MaxBuffered: cfg.Requests.MaxBuffered, Stall: cfg.Requests.BodyStall, Edited: cfg.Sharing.DPAware}
	c.LoadInterval = cfg.LoadMonitorInterval
	c.Permits = ingress.PermitsConfig{
		Max: cfg.Admission.MaxConcurrent, Queue: cfg.Admission.QueueSize, Wait: cfg.Admission.QueueTimeout, Rate: cfg.Admission.RatePerSecond,
	}
	c.Auth = ingress.RequireKey(string(cfg.Auth.APIKey))
	c.Retry = ingress.Retry{
		Attempts: cfg.Retry.Max, Initial: cfg.Retry.Initial, Max: cfg.Retry.MaxBackoff,
		Multiplier: cfg.Retry.Multiplier, Jitter: cfg.Retry.Jitter,
	}
	return c
}

// sharingConfig is what the flags of table_pd.go decide about the API.
func sharingConfig(s *flags.Sharing) ingress.PDConfig {
	return ingress.PDConfig{
		LocalPrefill: s.LocalPrefill, EncodeOnPrefill: s.EncodeOnPrefill(), SplitAnswers: s.SplitAnswers(), MinTokens: s.MinTokens,
		MaxRooms: s.MaxRooms, AdmissionWait: s.AdmissionWait,
	}
}

// modeOf is the mode in the API's terms.
func modeOf(cfg *flags.Launch) ingress.Mode {
	switch cfg.Mode {
	case flags.PD:
		return ingress.PD
	case flags.EPD:
		return ingress.EPD
	case flags.Regular:
	}
	return ingress.Regular
}

// legsOf are the legs that requests can have.
func legsOf(cfg *flags.Launch) []worker.Leg {
	c := ingress.Config{Mode: modeOf(cfg), Multi: cfg.EnableIGW}
	return c.Legs()
}

// aliases are other names of models.
func aliases(list []flags.ModelAlias) map[string]string {
	all := make(map[string]string, len(list))
	for _, a := range list {
		all[a.Name] = a.Model
	}
	return all
}

// policyOf is the name of a leg's policy.
func policyOf(cfg *flags.Launch, leg worker.Leg) string {
	switch leg {
	case worker.Encode:
		return cfg.EncodePolicy
	case worker.Prefill:
		return cfg.PrefillPolicy
	case worker.Decode:
		return cfg.DecodePolicy
	case worker.Regular:
	}
	return cfg.Policy
}

// Leg is one leg as people are told of it.
type Leg struct {
	Name    string
	Policy  string
	Workers []string // URLs, with their bootstrap ports
}

// Legs are the legs that requests have, with the workers that the command line
// names.
func Legs(cfg *flags.Launch) []Leg {
	var all []Leg
	for _, leg := range legsOf(cfg) {
		l := Leg{Name: leg.String(), Policy: policyOf(cfg, leg), Workers: []string{}}
		for _, c := range candidates(cfg) {
			if c.Leg != leg {
				continue
			}
			url := c.URL
			if c.BootstrapPort != 0 {
				url += fmt.Sprintf(" (bootstrap %d)", c.BootstrapPort)
			}
			l.Workers = append(l.Workers, url)
		}
		all = append(all, l)
	}
	return all
}

// candidates are the workers that the command line names, of the legs that the
// mode has.
func candidates(cfg *flags.Launch) []bootstrap.Candidate {
	var all []bootstrap.Candidate
	add := func(leg worker.Leg, url string, port int) {
		c := bootstrap.Candidate{URL: url, Leg: leg, BootstrapPort: uint16(port)}
		if port != 0 {
			c.BootstrapSource = "cli"
		}
		all = append(all, c)
	}
	for _, leg := range legsOf(cfg) {
		switch leg {
		case worker.Regular:
			for _, u := range cfg.WorkerURLs {
				add(leg, u, 0)
			}
		case worker.Encode:
			for _, w := range cfg.Encode {
				add(leg, w.URL, w.BootstrapPort)
			}
		case worker.Prefill:
			for _, w := range cfg.Prefill {
				add(leg, w.URL, w.BootstrapPort)
			}
		case worker.Decode:
			for _, u := range cfg.Decode {
				add(leg, u, 0)
			}
		}
	}
	return all
}
