package worker

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ID identifies a worker: the UUIDv5 of its canonical URL, so that every process
// derives the same one without asking anybody.
type ID [16]byte

// IDOf is the id of the worker at a canonical URL.
func IDOf(canonicalURL string) ID {
	return ID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(canonicalURL)))
}

// String is the id in the usual UUID form.
func (id ID) String() string { return uuid.UUID(id).String() }

// ParseID is the inverse of [ID.String].
func ParseID(s string) (ID, error) {
	u, err := uuid.Parse(s)
	if err != nil {
		return ID{}, fmt.Errorf("parsing worker id %q: %w", s, err)
	}
	return ID(u), nil
}

// Model is a model that a worker serves under an id and, possibly, other names.
type Model struct {
	ID      string
	Aliases []string
}

// Spec is a worker as its registrar describes it. It is treated as immutable:
// a change is a new Spec under the same ID.
type Spec struct {
	ID      ID
	URL     string // canonical, see CanonicalURL
	Leg     Leg
	Mode    Mode
	Runtime Runtime
	// Models is empty for a worker whose model stayed unknown; such a worker
	// serves only requests that name no model.
	Models []Model
	Labels map[string]string

	Priority int
	Cost     float64

	// Overload is the worker's own limits, in place of the fleet's.
	Overload OverloadLimits
	// LoadInterval is how often the worker wants to be asked for its load; 0 leaves
	// it to the fleet.
	LoadInterval time.Duration

	// BootstrapHost and BootstrapPort are where decode workers meet a prefill
	// worker; port 0 means none. BootstrapSource says who decided it.
	BootstrapHost   string
	BootstrapPort   uint16
	BootstrapSource string

	// KVConnector, KVRole and KVEngineID are how a vLLM worker hands KV over; "" is
	// not known.
	KVConnector string
	KVRole      string
	KVEngineID  string
	// DPRank is the data-parallel rank, of DPSize, that the worker is; DPSize is 0 for
	// a worker that is a whole engine. BaseURL is then the engine's own URL.
	DPSize, DPRank int
	BaseURL        string
	// Media are the types of media that the worker takes, such as "image"; empty when
	// it has not said.
	Media []string

	// Conflict says why the worker is registered but never chosen, such as a
	// bootstrap address that an earlier worker has; "" for all others.
	Conflict string

	// SealedKey is the worker's own key, which only those can read who know the
	// cluster's secret; empty is none.
	SealedKey []byte
	// Health, Breaker and Pool are rules of the worker's own; nil leaves all to the fleet.
	Health  *HealthRules
	Breaker *BreakerRules
	Pool    *PoolRules

	// RegisteredAt, then URL, is the order of workers everywhere.
	RegisteredAt time.Time
	// Revision counts the changes of the record since then: the higher one holds.
	Revision uint64
	// DrainingSince is when the worker began to leave: it gets nothing more, and is
	// removed after Health.Settle. It is zero for all others, and of whole milliseconds.
	DrainingSince time.Time
}

// Compare orders specs by (RegisteredAt, URL, rank), the order in which workers are
// indexed, rotated through and called first on every replica. It is 0 for the same
// worker only.
func (s *Spec) Compare(t *Spec) int {
	if c := s.RegisteredAt.Compare(t.RegisteredAt); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(s.Base(), t.Base()), cmp.Compare(s.DPRank, t.DPRank), cmp.Compare(s.URL, t.URL), bytes.Compare(s.ID[:], t.ID[:]))
}

// ModelID is the first model's id, or "" when the model is unknown.
func (s *Spec) ModelID() string {
	if len(s.Models) == 0 {
		return ""
	}
	return s.Models[0].ID
}

// Draining says whether the worker leaves.
func (s *Spec) Draining() bool { return !s.DrainingSince.IsZero() }

// Base is the URL that the worker's engine is called at: without a rank.
func (s *Spec) Base() string { return cmp.Or(s.BaseURL, s.URL) }

// Clone is a copy that shares nothing with s.
func (s *Spec) Clone() *Spec {
	c := *s
	c.Labels = maps.Clone(s.Labels)
	c.Models = slices.Clone(s.Models)
	c.Media = slices.Clone(s.Media)
	c.SealedKey = slices.Clone(s.SealedKey)
	c.Health, c.Breaker, c.Pool = s.Health.Clone(), s.Breaker.Clone(), s.Pool.Clone()
	for i := range c.Models {
		c.Models[i].Aliases = slices.Clone(c.Models[i].Aliases)
	}
	return &c
}

// ErrModeUnsupported is returned for worker URLs that are well formed but whose
// engines cannot be spoken to yet.
var ErrModeUnsupported = errors.New("connection mode not supported yet")

// unsupported is ErrModeUnsupported in words that say so themselves.
type unsupported string

func (e unsupported) Error() string      { return string(e) }
func (unsupported) Is(target error) bool { return target == ErrModeUnsupported }

const schemes = "http, https, grpc, grpcs or ipc"

// CanonicalURL checks a worker URL and returns the one spelling that identifies
// the worker: no trailing slash, everything else as typed. It may end with a rank, see
// [SplitRank]. The error says what is wrong and what to write instead.
func CanonicalURL(raw string) (string, error) {
	if base, rank, ok := SplitRank(raw); ok {
		u, err := CanonicalURL(base)
		if err != nil {
			return "", err
		}
		return u + "@" + strconv.Itoa(rank), nil
	}
	if raw == "" {
		return "", errors.New("worker URL is empty")
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		rest = raw
	}
	if authority, _, _ := strings.Cut(rest, "/"); strings.Contains(authority, "@") {
		return "", errors.New("worker URL carries a user name or password, which is not supported: leave it out") // and out of logs
	}
	if !ok {
		return "", fmt.Errorf("worker URL %q has no scheme: write http://%s", raw, raw)
	}
	switch scheme {
	case "http", "https":
	case "grpc", "grpcs", "ipc":
		if strings.Trim(rest, "/") == "" {
			return "", fmt.Errorf("worker URL %q names no host or path", raw)
		}
		kind := "gRPC"
		if scheme == "ipc" {
			kind = "ZMQ (ipc)"
		}
		return "", unsupported(fmt.Sprintf("worker URL %q: %s engines are not supported yet, use an http:// address", raw, kind))
	default:
		if l := strings.ToLower(scheme); l != scheme && (l == "http" || l == "https") {
			return "", fmt.Errorf("worker URL %q: write the scheme in lower case: %s://%s", raw, l, rest)
		}
		return "", fmt.Errorf("worker URL %q: scheme %q is not one of %s", raw, scheme, schemes)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("worker URL %q cannot be parsed: %w", raw, errors.Unwrap(err))
	}
	switch {
	case u.Hostname() == "":
		return "", fmt.Errorf("worker URL %q names no host", raw)
	case u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(rest, "?#"):
		return "", fmt.Errorf("worker URL %q carries a query or fragment: leave it out", raw)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return "", fmt.Errorf("worker URL %q: port %s is not in 1..65535", raw, p)
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return "", fmt.Errorf("worker URL %q has a colon but no port", raw)
	}
	return strings.TrimRight(raw, "/"), nil
}
