package bootstrap

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"smg/worker"
)

// mooncake finds out where decode workers meet a vLLM prefill worker with Mooncake, and
// by which id they ask for it. How an engine hands over cannot be asked of itself: one
// that was given a bootstrap port, at which Mooncake answers, has it. One whose id stays
// unknown is registered all the same: decode workers compute its prompts again.
//
// It returns what an operator is to be warned of, "" for nothing.
func (r *Registrar) mooncake(ctx context.Context, s *worker.Spec) (warning string) {
	named := s.KVConnector == worker.MooncakeConnector
	if s.Runtime != worker.VLLM || s.Leg != worker.Prefill || !named && (s.KVConnector != "" || s.BootstrapPort == 0) {
		return ""
	}
	var notes []string
	if s.BootstrapPort == 0 {
		s.BootstrapPort, s.BootstrapSource = DefaultPort, defaultSource
		notes = append(notes, fmt.Sprintf("it names no bootstrap port: %d is taken", DefaultPort))
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ProbeTimeout/2) // the worker is to be registered yet
	defer cancel()
	engines, err := r.prober.MooncakeEngines(ctx, "http://"+s.BootstrapHost+":"+strconv.Itoa(int(s.BootstrapPort)))
	switch {
	case err == nil:
		s.KVConnector = cmp.Or(s.KVConnector, worker.MooncakeFound)
		if s.KVEngineID == "" {
			s.KVEngineID = EngineOf(engines, s)
		}
	case !named:
		return "" // another connector, which has no use for the port
	case s.KVEngineID == "":
		notes = append(notes, "nobody can fetch its KV, since its engine id is not known: "+err.Error())
	}
	// Whoever picks it may not have the labels that the id depends on.
	if _, ok := s.MooncakeID(); !ok {
		s.KVEngineID = ""
		if err == nil {
			notes = append(notes, "nobody can fetch its KV, since it is not known which of its ranks would have it")
		}
	}
	return strings.Join(notes, "; ")
}

// MooncakePort is where a vLLM prefill worker with Mooncake is met.
func MooncakePort(s *worker.Spec) uint16 { return cmp.Or(s.BootstrapPort, DefaultPort) }

// EngineOf is the id of the worker's own rank, of those that a bootstrap server has told,
// without what names the rank, or of the engine where it has one rank only. It is "" where
// that is not known.
func EngineOf(engines map[int]string, s *worker.Spec) string {
	if s.DPSize > 1 {
		return strings.TrimSuffix(engines[s.DPRank], "_dp"+strconv.Itoa(s.DPRank))
	}
	if len(engines) > 1 {
		return ""
	}
	for _, id := range engines {
		return id
	}
	return ""
}
