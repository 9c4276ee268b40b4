package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// MooncakeEngines asks the bootstrap server of a vLLM prefill engine with Mooncake, at
// baseURL, by which id decode engines know each data-parallel rank. An error means that
// no such server answers there. ctx sets the time.
func (p *Prober) MooncakeEngines(ctx context.Context, baseURL string) (map[int]string, error) {
	const path = "/query"
	status, body, err := p.fetch(ctx, baseURL, path, "")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, statusError(baseURL, path, status, body)
	}
	var ranks map[string]struct {
		EngineID string `json:"engine_id"`
	}
	if err := json.Unmarshal(body, &ranks); err != nil {
		return nil, fmt.Errorf("GET %s%s: %w", baseURL, path, err)
	}
	engines := map[int]string{}
	for key, r := range ranks {
		if rank, err := strconv.Atoi(key); err == nil && rank >= 0 && r.EngineID != "" {
			engines[rank] = r.EngineID
		}
	}
	if len(engines) == 0 {
		return nil, fmt.Errorf("GET %s%s: names no engine", baseURL, path)
	}
	return engines, nil
}
