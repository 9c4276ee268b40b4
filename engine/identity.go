package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/zeebo/xxh3"
)

// Identity is what tells the processes behind one URL apart. Its zero value is that
// of an engine that shows nothing.
type Identity struct {
	// ID differs from start to start, 0 is unknown: of SGLang the seed that it draws when
	// it starts, together with its bootstrap port, of vLLM the time of its start. It is
	// that of the process before where an operator fixes the seed.
	ID uint64
	// BootstrapPort is where an SGLang prefill engine meets decode engines, 0 for none.
	BootstrapPort uint16
}

// Identify asks the engine at baseURL which process it is, in the way of engines of
// runtime; others show nothing and are not asked. What an engine does not offer is
// left out; an error means that no whole answer came. ctx sets the time.
func (p *Prober) Identify(ctx context.Context, baseURL, apiKey, runtime string) (Identity, error) {
	switch runtime {
	case RuntimeSGLang:
		return p.identifySGLang(ctx, &asker{p: p, baseURL: baseURL, apiKey: apiKey})
	case RuntimeVLLM:
		status, body, err := p.fetch(ctx, baseURL, metricsPath, apiKey)
		if err != nil || status != http.StatusOK {
			return Identity{}, err
		}
		return Identity{ID: startOf(body)}, nil
	}
	return Identity{}, nil
}

func (p *Prober) identifySGLang(ctx context.Context, a *asker) (Identity, error) {
	info, err := a.object(ctx, "/server_info", "/get_server_info")
	if err != nil {
		return Identity{}, err
	}
	text := func(key string, from object) string {
		s, _ := scalar(from[key])
		return s
	}
	// Some versions have what the command line said one level down.
	args := object{}
	if json.Unmarshal(info["server_args"], &args) != nil || text("random_seed", info) != "" {
		args = info
	}
	var id Identity
	port := text("disaggregation_bootstrap_port", args)
	if text("disaggregation_mode", args) == "prefill" {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			id.BootstrapPort = uint16(n)
		}
	}
	if seed := text("random_seed", args); seed != "" {
		id.ID = max(1, xxh3.HashString(seed+" "+port))
	}
	return id, nil
}

// startOf hashes the time of a process's start, as the Prometheus clients of most
// languages export it, or is 0 if there is none, or more than one.
func startOf(text []byte) uint64 {
	var start []byte
	for line := range bytes.Lines(text) {
		if name, rest := cutName(line); string(name) == "process_start_time_seconds" {
			if start != nil {
				return 0
			}
			start = bytes.Trim(rest, blanks)
		}
	}
	if len(start) == 0 {
		return 0
	}
	return max(1, xxh3.Hash(start))
}
