package bootstrap

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"smg/worker"
)

// Candidate is a worker that the command line names.
type Candidate struct {
	URL string // as typed
	Leg worker.Leg
	// BootstrapPort is where decode workers meet a prefill worker; 0 is none.
	// BootstrapSource says who gave it.
	BootstrapPort   uint16
	BootstrapSource string
	SealedKey       []byte // see [worker.Spec]
}

const (
	defaultPriority = 50 // of a worker that nobody gave another
	defaultSource   = "default"
)

// SpecOf is what is known of a worker before it answers: its defaults under its
// canonical URL. What a caller adds to it (a runtime, models, labels, a bootstrap
// port) holds against what the worker will say of itself. The error says what is
// wrong with the URL, and what to write instead.
func SpecOf(rawURL string, leg worker.Leg) (*worker.Spec, error) {
	u, err := worker.CanonicalURL(rawURL)
	if err != nil {
		return nil, err
	}
	base, rank, ranked := worker.SplitRank(u)
	parsed, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("parsing the worker's URL: %w", err)
	}
	host := parsed.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // engines expect IPv6 addresses in brackets
	}
	s := &worker.Spec{
		ID: worker.IDOf(base), URL: base, Leg: leg, Mode: worker.HTTP, Priority: defaultPriority, Cost: 1,
		BootstrapHost: host, BootstrapSource: defaultSource,
	}
	if ranked {
		s = s.Ranked(rank, rank+1) // the engine will say how many there are
	}
	return s, nil
}

func specOf(c Candidate) (*worker.Spec, error) {
	s, err := SpecOf(c.URL, c.Leg)
	if err != nil {
		return nil, err
	}
	s.BootstrapPort, s.SealedKey = c.BootstrapPort, c.SealedKey
	if c.BootstrapSource != "" {
		s.BootstrapSource = c.BootstrapSource
	}
	return s, nil
}

// DefaultPort is where vLLM's prefill engines with Mooncake are met, unless they were
// started with another one.
const DefaultPort uint16 = 8998

// Labels by which an SGLang engine says where decode workers meet it.
const (
	modeLabel = "disaggregation_mode"
	portLabel = "disaggregation_bootstrap_port"
)

// lift gives the labels that are fields under another name to their fields, where
// those are empty.
func lift(s *worker.Spec) {
	for name, field := range map[string]*string{"kv_connector": &s.KVConnector, "kv_role": &s.KVRole, "kv_engine_id": &s.KVEngineID} {
		if value, ok := s.Labels[name]; ok {
			*field = cmp.Or(*field, value)
			delete(s.Labels, name)
		}
	}
	if len(s.Media) == 0 {
		for kind := range strings.SplitSeq(s.Labels[mediaLabel], ",") {
			if kind = strings.TrimSpace(kind); kind != "" {
				s.Media = append(s.Media, kind)
			}
		}
	}
}

// mediaLabel lists the types of media that a worker takes, such as image,video.
const mediaLabel = "accepted_media"

// merged is a worker as it is registered: what was asked for, and what it says of
// itself where nothing was.
func merged(asked *worker.Spec, found Found) *worker.Spec {
	s := asked.Clone()
	if s.Runtime == "" {
		s.Runtime = found.Runtime
	}
	if len(s.Models) == 0 {
		for _, m := range found.Models {
			s.Models = append(s.Models, worker.Model{ID: m})
		}
	}
	labels := maps.Clone(found.Labels)
	if labels == nil {
		labels = s.Labels
	} else {
		maps.Copy(labels, s.Labels)
	}
	s.Labels = labels
	lift(s)
	if s.BootstrapPort == 0 && s.Leg == worker.Prefill && s.Runtime == worker.SGLang && labels[modeLabel] == worker.Prefill.String() {
		if port, err := strconv.ParseUint(labels[portLabel], 10, 16); err == nil && port > 0 {
			s.BootstrapPort, s.BootstrapSource = uint16(port), worker.EngineSource
		}
	}
	return s
}
