package ingress

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"smg/bootstrap"
	"smg/wire"
	"smg/worker"
)

// workerRequest is a worker as a body describes it. What is absent, or null, has its
// default.
type workerRequest struct {
	URL           *string           `json:"url"`
	WorkerType    *string           `json:"worker_type"`
	Runtime       *string           `json:"runtime_type"`
	RuntimeAlias  *string           `json:"runtime"`
	Models        []modelRequest    `json:"models"`
	ModelID       *string           `json:"model_id"`
	Labels        map[string]string `json:"labels"`
	Priority      *int              `json:"priority"`
	Cost          *float64          `json:"cost"`
	APIKey        *string           `json:"api_key"`
	BootstrapHost *string           `json:"bootstrap_host"`
	BootstrapPort *int64            `json:"bootstrap_port"`
	KVConnector   *string           `json:"kv_connector"`
	KVEngineID    *string           `json:"kv_engine_id"`
	KVRole        *string           `json:"kv_role"`
	Overload      *overloadRequest  `json:"overload"`
	LoadInterval  *int64            `json:"load_monitor_interval_secs"`

	Health     *healthRequest     `json:"health"`
	HTTPPool   *poolRequest       `json:"http_pool"`
	Resilience *resilienceRequest `json:"resilience"`
}

type modelRequest struct {
	ID      *string  `json:"id"`
	Aliases []string `json:"aliases"`
}

type overloadRequest struct {
	Waiting    *int64   `json:"waiting_requests"`
	TokenUsage *float64 `json:"token_usage"`
}

// ignored names the fields that are understood and have no effect yet.
func (q *workerRequest) ignored() (names []string) {
	if q.HTTPPool != nil && q.HTTPPool.HTTP2 != nil && *q.HTTPPool.HTTP2 {
		names = append(names, "http_pool.http2")
	}
	return names
}

// readWorker reads a body. Faults of its form are told in plain text, as SMG does.
func readWorker(raw []byte) (*workerRequest, error) {
	q := &workerRequest{}
	if err := decodeWorker(raw, q, `{"url":"http://host:8000"}`); err != nil {
		return nil, err
	}
	if q.URL == nil {
		return nil, textProblem(http.StatusUnprocessableEntity, "url is missing: send the worker's address, such as {\"url\":\"http://host:8000\"}")
	}
	return q, nil
}

// decodeWorker reads what a body, such as example, says of a worker.
func decodeWorker(raw []byte, q any, example string) error {
	err := json.Unmarshal(raw, q)
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typed) && typed.Field == "":
		return textProblem(http.StatusUnprocessableEntity, "the body must be a JSON object such as "+example+", not "+clip(typed.Value))
	case errors.As(err, &typed):
		return textProblem(http.StatusUnprocessableEntity, clip(typed.Field)+" must be "+wanted(typed.Type)+", not "+clip(typed.Value))
	case err != nil:
		return textProblem(http.StatusBadRequest, "the body is no JSON: "+err.Error())
	}
	return nil
}

func textProblem(status int, message string) *problem {
	return &problem{status: status, form: text, message: message}
}

// wanted is a type in words.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Map:
		return "an object of strings"
	default:
		return "an object"
	}
}

// runtimes are the words for what runs behind a URL. The first stands for whatever
// is found there.
var runtimes = [...]string{"unspecified", "sglang", "vllm", "trtllm", "mlx", "tokenspeed", "generic", "external"}

// spec is the worker in a fleet that has those legs.
func (q *workerRequest) spec(legs []worker.Leg) (*worker.Spec, error) {
	leg, runtime, err := q.words()
	if err != nil {
		return nil, err
	}
	s, err := bootstrap.SpecOf(*q.URL, leg)
	if err != nil {
		return nil, badWorker("%v", err)
	}
	s.Runtime = runtime
	if !slices.Contains(legs, leg) {
		return nil, badWorker("worker_type %s has no place in this gateway, which has %s workers: start it with other workers, or send another worker_type", leg, namesOf(legs))
	}
	for _, add := range []func(*worker.Spec) error{q.addModels, q.addBootstrap, q.addLimits, q.addRules} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	q.addHandOver(s)
	s.Labels = q.Labels
	if q.Priority != nil {
		s.Priority = *q.Priority
	}
	if q.Cost != nil {
		s.Cost = *q.Cost
	}
	if _, err := wire.AppendSpec(nil, s); err != nil {
		return nil, unkeepable(err)
	}
	return s, nil
}

func unkeepable(err error) *problem {
	return badWorker("the worker's record cannot be kept: %v: send fewer or shorter values", errors.Unwrap(err))
}

func badWorker(format string, args ...any) *problem {
	return workerProblem(http.StatusBadRequest, codeBadRequest, format, args...)
}

// namesOf are legs in words.
func namesOf(legs []worker.Leg) string {
	var names []string
	for _, l := range legs {
		names = append(names, l.String())
	}
	return strings.Join(names, ", ")
}

// words reads the fields that take one of a few words.
func (q *workerRequest) words() (worker.Leg, worker.Runtime, error) {
	leg := worker.Regular
	if q.WorkerType != nil {
		var err error
		if leg, err = worker.ParseLeg(*q.WorkerType); err != nil {
			return 0, "", textProblem(http.StatusUnprocessableEntity, "worker_type "+quoted(*q.WorkerType)+" must be one of regular, prefill, decode, encode")
		}
	}
	word := q.Runtime
	if word == nil {
		word = q.RuntimeAlias
	}
	switch {
	case word == nil || *word == runtimes[0]:
		return leg, "", nil
	case !slices.Contains(runtimes[:], *word):
		return 0, "", textProblem(http.StatusUnprocessableEntity, "runtime_type "+quoted(*word)+" must be one of "+strings.Join(runtimes[:], ", "))
	}
	return leg, worker.Runtime(*word), nil
}

func quoted(s string) string { return `"` + clip(s) + `"` }

func (q *workerRequest) addModels(s *worker.Spec) error {
	for _, m := range q.Models {
		if m.ID == nil || *m.ID == "" {
			return textProblem(http.StatusUnprocessableEntity, `models: each needs an id, such as {"id":"llama"}`)
		}
		s.Models = append(s.Models, worker.Model{ID: *m.ID, Aliases: m.Aliases})
	}
	if q.ModelID != nil && *q.ModelID != "" && len(s.Models) == 0 {
		s.Models = []worker.Model{{ID: *q.ModelID}}
	}
	return nil
}

// addHandOver adds how the worker hands KV over.
func (q *workerRequest) addHandOver(s *worker.Spec) {
	for _, f := range []struct{ from, to *string }{{q.KVConnector, &s.KVConnector}, {q.KVRole, &s.KVRole}, {q.KVEngineID, &s.KVEngineID}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
}

// apiSource is who gave a bootstrap address, in GET /workers: whoever described the
// worker.
const apiSource = "spec"

func (q *workerRequest) addBootstrap(s *worker.Spec) error {
	if q.BootstrapHost == nil && q.BootstrapPort == nil {
		return nil
	}
	if s.Leg != worker.Prefill && s.Leg != worker.Encode {
		return badWorker("bootstrap_host and bootstrap_port are for prefill and encode workers: leave them out for a %s worker", s.Leg)
	}
	s.BootstrapSource = apiSource
	if q.BootstrapPort != nil {
		if *q.BootstrapPort < 1 || *q.BootstrapPort > math.MaxUint16 {
			return badWorker("bootstrap_port %d is not in 1..65535: leave it out for a worker that has none", *q.BootstrapPort)
		}
		s.BootstrapPort = uint16(*q.BootstrapPort)
	}
	if q.BootstrapHost != nil {
		host, ok := bootstrapHost(*q.BootstrapHost)
		if !ok {
			return badWorker("bootstrap_host %q is no host name or address: send it without scheme, port and path", clip(*q.BootstrapHost))
		}
		s.BootstrapHost = host
	}
	return nil
}

// bootstrapHost is a host in the form that engines expect: IPv6 addresses in
// brackets.
func bootstrapHost(host string) (string, bool) {
	if plain, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(plain, "]")
		if !ok || !strings.Contains(host, ":") {
			return "", false
		}
	}
	if strings.Contains(host, ":") {
		a, err := netip.ParseAddr(host)
		return "[" + host + "]", err == nil && a.Is6()
	}
	name := func(c rune) bool {
		return c == '.' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return host, host != "" && !strings.ContainsFunc(host, func(c rune) bool { return !name(c) })
}

func (q *workerRequest) addLimits(s *worker.Spec) error {
	if o := q.Overload; o != nil {
		if o.Waiting != nil {
			if *o.Waiting < 1 || *o.Waiting > math.MaxInt32 {
				return badWorker("overload.waiting_requests %d must be 1 or more: leave it out for the gateway's limit", *o.Waiting)
			}
			s.Overload.Waiting = int(*o.Waiting)
		}
		if o.TokenUsage != nil {
			if *o.TokenUsage <= 0 || *o.TokenUsage > 1 {
				return badWorker("overload.token_usage %v must be above 0 and at most 1: leave it out for the gateway's limit", *o.TokenUsage)
			}
			s.Overload.TokenUsage = *o.TokenUsage
		}
	}
	if q.LoadInterval != nil {
		if *q.LoadInterval < 1 || *q.LoadInterval > maxRuleSecs {
			return badWorker("load_monitor_interval_secs %d is not in 1..%d: leave it out for the gateway's interval", *q.LoadInterval, maxRuleSecs)
		}
		s.LoadInterval = time.Duration(*q.LoadInterval) * time.Second
	}
	return nil
}
