package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// The engines that Discover tells apart over HTTP.
const (
	RuntimeSGLang  = "sglang"
	RuntimeVLLM    = "vllm"
	RuntimeGeneric = "generic" // speaks the OpenAI API, llama.cpp for one
)

// UnknownModel is the model id of an engine that names none.
const UnknownModel = "unknown"

// Info is what an engine says about itself.
type Info struct {
	Runtime string   // RuntimeSGLang, RuntimeVLLM or RuntimeGeneric
	ModelID string   // UnknownModel if it names none
	Models  []string // all ids it lists, in its order
	// Labels are facts under the names that worker labels have:
	// served_model_name, model_path, tp_size, dp_size, max_total_tokens,
	// version and others.
	Labels map[string]string
}

// labelKeys maps what engines call a fact to its label. Where several keys
// lead to one label, the first that the engine sends wins.
var (
	serverInfoLabels = []labelKey{
		{"served_model_name", "served_model_name"},
		{"model_id", "model_id"},
		{"model_path", "model_path"},
		{"tokenizer_path", "tokenizer_path"},
		{"tp_size", "tp_size"},
		{"dp_size", "dp_size"},
		{"pp_size", "pp_size"},
		{"ep_size", "ep_size"},
		{"page_size", "page_size"},
		{"context_length", "context_length"},
		// What the KV cache really holds, before what the command line asked.
		{"max_total_num_tokens", "max_total_tokens"},
		{"max_total_tokens", "max_total_tokens"},
		{"max_prefill_tokens", "max_prefill_tokens"},
		{"max_running_requests", "max_running_requests"},
		{"load_balance_method", "load_balance_method"},
		{"disaggregation_mode", "disaggregation_mode"},
		{"disaggregation_bootstrap_port", "disaggregation_bootstrap_port"},
		{"disaggregation_transfer_backend", "disaggregation_transfer_backend"},
		{"weight_version", "weight_version"},
		{"version", "version"},
	}
	modelInfoLabels = []labelKey{
		{"served_model_name", "served_model_name"},
		{"model_path", "model_path"},
		{"tokenizer_path", "tokenizer_path"},
		{"is_generation", "is_generation"},
		{"model_type", "model_type"},
		{"weight_version", "weight_version"},
	}
	modelLabels = []labelKey{
		{"owned_by", "owned_by"},
		{"root", "model_path"},
		{"max_model_len", "max_model_len"},
	}
)

type labelKey struct{ key, label string }

type object map[string]json.RawMessage

// Discover finds out which engine answers at baseURL, which models it serves
// and the facts that routing and operators use. apiKey goes along as bearer
// unless it is empty. What an engine does not offer is left out; an error
// means that it cannot be talked to yet, or not with this key.
func (p *Prober) Discover(ctx context.Context, baseURL, apiKey string) (Info, error) {
	a := &asker{p: p, baseURL: baseURL, apiKey: apiKey}
	info := Info{Labels: make(map[string]string)}
	owner, err := a.models(ctx, &info)
	if err != nil {
		return Info{}, err
	}
	switch owner {
	case "sglang", "nvidia":
		info.Runtime = RuntimeSGLang
	case "vllm":
		info.Runtime = RuntimeVLLM
	case "llamacpp":
		info.Runtime = RuntimeGeneric
	}
	if info.Runtime == "" || info.Runtime == RuntimeVLLM {
		if err := a.version(ctx, &info); err != nil {
			return Info{}, err
		}
	}
	if info.Runtime == "" || info.Runtime == RuntimeSGLang {
		if err := a.sglang(ctx, &info); err != nil {
			return Info{}, err
		}
	}
	if info.Runtime == "" {
		info.Runtime = RuntimeGeneric
	}
	info.ModelID = modelID(&info)
	return info, nil
}

// asker puts questions to one engine.
type asker struct {
	p       *Prober
	baseURL string
	apiKey  string
}

// models lists the models, and returns the owner that the first one names.
func (a *asker) models(ctx context.Context, info *Info) (owner string, err error) {
	answer, err := a.object(ctx, "/v1/models")
	if err != nil {
		return "", err
	}
	var cards []object
	if json.Unmarshal(answer["data"], &cards) != nil {
		return "", nil
	}
	for _, card := range cards {
		if id, ok := scalar(card["id"]); ok && id != "" && !slices.Contains(info.Models, id) {
			info.Models = append(info.Models, id)
		}
	}
	if len(cards) == 0 {
		return "", nil
	}
	info.label(cards[0], modelLabels)
	return info.Labels["owned_by"], nil
}

// version is vLLM's question. It answers with a version, which no catch-all
// page does.
func (a *asker) version(ctx context.Context, info *Info) error {
	answer, err := a.object(ctx, "/version")
	if err != nil {
		return err
	}
	if version, ok := scalar(answer["version"]); ok {
		info.Runtime = RuntimeVLLM
		info.Labels["version"] = version
	}
	return nil
}

// sglang asks for server and model info, by the names of newer and older
// versions.
func (a *asker) sglang(ctx context.Context, info *Info) error {
	server, err := a.object(ctx, "/server_info", "/get_server_info")
	if err != nil {
		return err
	}
	if server == nil && info.Runtime == "" {
		return nil
	}
	info.Runtime = RuntimeSGLang
	model, err := a.object(ctx, "/model_info", "/get_model_info")
	if err != nil {
		return err
	}
	info.label(server, serverInfoLabels)
	info.label(model, modelInfoLabels)
	return nil
}

// object gets the first of paths that exists. It is nil if none does, or the
// answer is no JSON object.
func (a *asker) object(ctx context.Context, paths ...string) (object, error) {
	for _, path := range paths {
		status, body, err := a.p.fetch(ctx, a.baseURL, path, a.apiKey)
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			return nil, fmt.Errorf("the worker's API key does not fit: %w", statusError(a.baseURL, path, status, body))
		case status == http.StatusNotImplemented:
		case status >= 500 || status == http.StatusTooManyRequests:
			// Still loading, or in trouble: what it is would be a guess.
			return nil, statusError(a.baseURL, path, status, body)
		case good(status):
			var answer object
			if json.Unmarshal(body, &answer) != nil {
				return nil, nil
			}
			return answer, nil
		}
	}
	return nil, nil
}

// label copies facts; a label that is there stays.
func (i *Info) label(from object, keys []labelKey) {
	for _, k := range keys {
		if _, taken := i.Labels[k.label]; taken {
			continue
		}
		if value, ok := scalar(from[k.key]); ok {
			i.Labels[k.label] = value
		}
	}
}

// modelID follows the order of trust.
func modelID(info *Info) string {
	if len(info.Models) > 0 {
		return info.Models[0]
	}
	for _, label := range []string{"served_model_name", "model_id", "model_path"} {
		if id := info.Labels[label]; id != "" {
			return id
		}
	}
	return UnknownModel
}

// scalar renders a JSON string, number or bool; null, lists and objects are
// no facts.
func scalar(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case '{', '[', 'n':
		return "", false
	}
	return string(raw), true
}
