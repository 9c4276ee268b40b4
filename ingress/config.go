package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"smg/bootstrap"
	"smg/engine"
	"smg/wire"
	"smg/worker"
)

// Selector chooses workers and keeps the count of what is in flight. It is safe
// for concurrent use.
type Selector interface {
	// Plan draws the identity of a new plan: a lease id without leg and item.
	Plan() worker.LeaseID
	// Select picks a worker and begins the lease ask.Lease on it, which may be another
	// one afterwards. On error nothing is counted. The error is one of package worker's Err values, possibly
	// wrapped, wire.ErrSelectionUnavailable or the context's.
	Select(ctx context.Context, ask *wire.Select) (wire.Pick, error)
	// Head says that the answer to a call which probes a half-open breaker has begun
	// well: the probe has succeeded, however long the answer takes.
	Head(id worker.LeaseID)
	// End ends a lease that Select began. unreached says that the call never got to
	// its worker. Ending twice is harmless.
	End(id worker.LeaseID, outcome worker.Outcome, unreached bool)
}

// Dispatcher sends a request to an engine. See [engine.Client].
type Dispatcher interface {
	// Reach is an engine's address, to be called by rules that it has of its own; nil is none.
	Reach(url string, own *worker.PoolRules) (*engine.Target, error)
	Send(ctx context.Context, t *engine.Target, req *engine.Request) (*engine.Response, error)
}

// Fleet is what the information routes show. Its answers are snapshots.
type Fleet interface {
	// Workers is everybody who is registered, in order. The list is the caller's own.
	Workers() []*worker.Worker
	// Models are the ids of all models that workers bring, each once, in the order of
	// workers. They are the same as long as the generation is; nobody modifies them.
	Models() (ids []string, generation uint64)
	// Lookup is a worker as it is known now, or nil.
	Lookup(id worker.ID) *worker.Worker
	// Active is the number of this ingress's own calls in flight at a worker.
	Active(id worker.ID) int
	// Overloaded says whether overload protection keeps requests from a worker now. It
	// is asked for every call.
	Overloaded(id worker.ID) bool
	// Outdated says whether a worker is another process now than that of an epoch; 0 is
	// an epoch that is not known.
	Outdated(leg worker.Leg, id worker.ID, epoch uint64) bool
	// Pairing says who of a model's prefill and decode workers can share a request. It is
	// nil where everybody can with everybody. It is asked for every disaggregated request.
	Pairing(model string) *worker.Pairing
	// Alone says whether every decode worker of a model can serve requests by itself. It is
	// asked for every disaggregated request.
	Alone(model string) bool
	// Serves says whether a worker serves a model on a leg, as far as is known.
	Serves(leg worker.Leg, model string, id worker.ID) bool
	// Sole is the only model that regular workers serve, "" if there is none or several
	// are. It is asked for every request.
	Sole() (model string, several bool)
	// Canonical is the id of the model that goes by an alias, false for any other name.
	// It is asked for every request.
	Canonical(name string) (id string, ok bool)
	// Roles counts a model's workers. It is asked for every attempt where models differ in
	// their modes.
	Roles(model string) worker.Roles
	// Readiness is whether the fleet can serve, and how many of all workers are
	// ready. Probes call it: it must neither lock nor walk the registry.
	Readiness() (ready bool, healthy, total int)
}

// Registrar brings workers into the fleet and takes them out. It is safe for
// concurrent use. See [bootstrap.Registrar], whose errors it has.
type Registrar interface {
	Add(s *worker.Spec) error
	Replace(ctx context.Context, s *worker.Spec) error
	Patch(ctx context.Context, id worker.ID, p bootstrap.Patch) error
	Drain(ctx context.Context, id worker.ID) error
	Remove(ctx context.Context, id worker.ID) error
	Job(id worker.ID) (bootstrap.Job, bool)
}

// Config is what an operator decides about the API.
type Config struct {
	// MaxPayloadBytes bounds a request's body and a buffered answer.
	MaxPayloadBytes int64
	// MaxBufferedBytes bounds the sum of all buffered request bodies.
	MaxBufferedBytes int64
	MaxJSONDepth     int
	// MaxHeaderBytes and ReadHeaderTimeout bound a request's head.
	MaxHeaderBytes    int
	ReadHeaderTimeout time.Duration
	// RequestTimeout is one deadline for a request, over everything it does.
	RequestTimeout time.Duration
	// BodyStall ends a request whose body brings no byte for so long.
	BodyStall time.Duration
	// WriteStall ends a client that takes no byte for so long.
	WriteStall time.Duration
	// Grace is the time that a stop may take, settling and draining together.
	Grace time.Duration
	// Mode is how the fleet serves a request, PD what else is decided on a
	// disaggregated one.
	Mode Mode
	PD   PDConfig
	// Multi serves each model as its workers can serve it, whatever Mode says.
	Multi bool
	// Retry is how often a request is tried.
	Retry Retry
	// LoadInterval is how often workers are asked for their loads: whoever is refused
	// because they are too high may come back after it.
	LoadInterval time.Duration
	// RoutingKeyHeaders are read in order for a routing key; lower case.
	RoutingKeyHeaders []string

	// Version is the program's, as GET /loads tells it.
	Version string
	// TLS is what the API is served by, nil for plain HTTP.
	TLS *tls.Config

	Auth    AuthConfig
	Permits PermitsConfig
	Upload  UploadConfig
	CORS    CORSConfig
	Access  AccessConfig
	Trace   TraceConfig
}

// PDConfig is what an operator decides about requests that several workers share.
type PDConfig struct {
	// LocalPrefill is up to how many tokens of a prompt a decode worker computes itself,
	// where its engine can; 0 is none, so that every prompt goes to a prefill worker.
	LocalPrefill int64
	// EncodeOnPrefill leaves media to the prefill worker where no encode worker is
	// available for them.
	EncodeOnPrefill bool
	// SplitAnswers has each of a chat's n answers asked for by itself where SGLang's
	// engines share it: some refuse the lists of rooms that one request of several has.
	SplitAnswers bool
	// MinTokens has the data-parallel rank with the fewest tokens in use serve each of
	// prefill and decode, whichever rank was picked.
	MinTokens bool
	// MaxRooms is how many sequences a decode worker gets at a time, 0 for as many as it
	// reports to run, and AdmissionWait how long a request waits for one that may get more.
	MaxRooms      int
	AdmissionWait time.Duration
}

// DefaultConfig is the configuration of a gateway that was given no flags.
func DefaultConfig() Config {
	return Config{
		MaxPayloadBytes:   512 << 20,
		MaxBufferedBytes:  1 << 30,
		MaxJSONDepth:      512,
		MaxHeaderBytes:    64 << 10,
		ReadHeaderTimeout: 10 * time.Second,
		RequestTimeout:    30 * time.Minute,
		BodyStall:         5 * time.Minute,
		WriteStall:        time.Minute,
		Grace:             3 * time.Minute,
		Retry:             DefaultRetry(),
		LoadInterval:      10 * time.Second,
		PD:                PDConfig{AdmissionWait: 30 * time.Second},
		RoutingKeyHeaders: []string{"x-smg-routing-key"},
		Auth:              DefaultAuth(),
		Permits:           DefaultPermits(),
		Upload:            DefaultUpload(),
		CORS:              DefaultCORS(),
		Access:            DefaultAccess(),
		Trace:             DefaultTrace(),
	}
}

// Validate reports every value out of range, each by its flag.
func (c Config) Validate() error {
	var errs []error
	positive := func(flag string, v int64) {
		if v <= 0 {
			errs = append(errs, fmt.Errorf("--%s must be greater than 0, not %d", flag, v))
		}
	}
	positive("max-payload-size", c.MaxPayloadBytes)
	positive("max-buffered-bytes-total", c.MaxBufferedBytes)
	positive("max-json-depth", int64(c.MaxJSONDepth))
	positive("max-header-bytes", int64(c.MaxHeaderBytes))
	positive("read-header-timeout-secs", int64(c.ReadHeaderTimeout))
	positive("request-timeout-secs", int64(c.RequestTimeout))
	positive("load-monitor-interval", int64(c.LoadInterval))
	if c.BodyStall <= 0 {
		errs = append(errs, errors.New("the body stall limit must be greater than 0"))
	}
	if c.WriteStall <= 0 {
		errs = append(errs, errors.New("the write stall limit must be greater than 0"))
	}
	if c.PD.AdmissionWait < 0 {
		errs = append(errs, errors.New("--pd-admission-wait-secs must not be negative"))
	}
	if c.Grace < 0 {
		errs = append(errs, errors.New("--shutdown-grace-period-secs must not be negative"))
	}
	return errors.Join(append(errs, c.Retry.Validate(), c.Auth.Validate(), c.Permits.Validate(), c.Upload.Validate(),
		c.CORS.Validate(), c.Access.Validate(), c.Trace.Validate())...)
}
