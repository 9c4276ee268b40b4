package simctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Duration is a time.Duration that JSON shows as "1.5s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("parse duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// Faults is everything that can be wrong with an engine. The zero value is a
// healthy engine. All times are real time, whatever the time scale.
type Faults struct {
	// Rules act on single requests. The first rule that matches applies.
	Rules []Rule `json:"rules,omitempty"`
	// Window admits only that many sequences and queues the rest.
	Window *int `json:"window,omitempty"`
	// KeepAlive closes connections that have been idle for so long.
	KeepAlive Duration `json:"keep_alive,omitempty"`
	// Strict answers 400 to stream_options without stream and to null where a
	// boolean is due.
	Strict bool `json:"strict,omitempty"`
	// Auth answers 401 on every route but the control API unless the request
	// carries "Authorization: Bearer <Auth>".
	Auth string `json:"auth,omitempty"`
	// Loads replaces what /v1/loads and /metrics report.
	Loads *LoadsOverride `json:"loads,omitempty"`
	// Refuse closes the listener and the idle connections: new connections
	// are refused until it is switched off. Requests in flight go on.
	Refuse bool `json:"refuse,omitempty"`
	// Reset accepts that many connections and resets them at once.
	Reset int `json:"reset,omitempty"`
	// Freeze stops the engine's time and its answers, also those in flight.
	// Connections stay open, as with a stopped process.
	Freeze bool `json:"freeze,omitempty"`
	// CrashOnDuplicateRoom has an SGLang engine die, with all of its process, of a request
	// for a bootstrap room that is in use, as the real one does.
	CrashOnDuplicateRoom bool `json:"crash_on_duplicate_room,omitempty"`
	// Record keeps every request for Records.
	Record bool `json:"record,omitempty"`
	// Transfer is what goes wrong with KV that other engines fetch here.
	Transfer *TransferFault `json:"transfer,omitempty"`
}

// TransferFault acts on the bootstrap port of an SGLang prefill engine and on
// the side channel of a vLLM producer.
type TransferFault struct {
	// Refuse closes the port: new connections are refused.
	Refuse bool `json:"refuse,omitempty"`
	// Hold keeps computed KV, and whoever waits for it, until the faults are
	// replaced. Delay keeps it for so long.
	Hold  bool     `json:"hold,omitempty"`
	Delay Duration `json:"delay,omitempty"`
	// WrongRoom opens another room than the one of the request.
	WrongRoom bool `json:"wrong_room,omitempty"`
	// Drop breaks the connection in the middle of what is handed over.
	Drop bool `json:"drop,omitempty"`
	// Params is a JSON object whose members are added to kv_transfer_params of
	// answers.
	Params json.RawMessage `json:"params,omitempty"`
}

// Match selects requests. Empty fields match everything.
type Match struct {
	Path     string `json:"path,omitempty"`     // the exact path
	Method   string `json:"method,omitempty"`   // the exact method
	Contains string `json:"contains,omitempty"` // a part of the body
	Skip     int    `json:"skip,omitempty"`     // let that many matching requests pass first
	First    int    `json:"first,omitempty"`    // then match only that many; 0 is no limit
}

// Rule is what happens to matching requests, in the order of the fields: a
// delay, a hold, then the dropped connection, the given answer, or the
// engine's own answer with a broken body.
type Rule struct {
	Match Match    `json:"match,omitzero"`
	Delay Duration `json:"delay,omitempty"`
	// Hold accepts the request and sends nothing until released, or until the
	// faults are replaced.
	Hold bool `json:"hold,omitempty"`
	// Drop closes the connection without an answer.
	Drop bool `json:"drop,omitempty"`
	// Status answers with this status, Header and Body. A Body that is a JSON
	// string is sent as text, any other JSON as it is; without one the answer
	// is an error in the engine's own style.
	Status int               `json:"status,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	Body   json.RawMessage   `json:"body,omitempty"`
	// Early applies the rule before the request body is read. Contains is
	// then not looked at.
	Early bool `json:"early,omitempty"`
	// CutBody closes the connection after so many bytes of an answer that is
	// not a stream. Its Content-Length is that of the whole answer.
	CutBody *int `json:"cut_body,omitempty"`
	// Stream breaks or shapes the answer if it is an event stream.
	Stream *StreamFault `json:"stream,omitempty"`
}

// StreamFault shapes an event stream. Events are counted from 1 without the
// closing [DONE].
type StreamFault struct {
	// Tokens is the exact number of output tokens, whatever was asked for.
	Tokens *int `json:"tokens,omitempty"`
	// Gap waits before each event, on top of the engine's own time.
	Gap Duration `json:"gap,omitempty"`
	// CutAfter closes the connection after k events; 0 after the headers.
	CutAfter *int `json:"cut_after,omitempty"`
	// StallAfter sends nothing more after k events but keeps the connection.
	StallAfter *int `json:"stall_after,omitempty"`
	// MalformedAt sends broken JSON as event k.
	MalformedAt int `json:"malformed_at,omitempty"`
	// SplitAt writes each event in two pieces, the first SplitAt bytes long,
	// and waits SplitPause in between.
	SplitAt    int      `json:"split_at,omitempty"`
	SplitPause Duration `json:"split_pause,omitempty"`
	// FailAfter has the engine fail after k events, and say so in an event.
	FailAfter *int `json:"fail_after,omitempty"`
	// Backwards sends the events of several answers the last answer's first.
	Backwards bool `json:"backwards,omitempty"`
	// Type is the Content-Type of the stream, if not the usual one.
	Type string `json:"type,omitempty"`
	// Done is how the stream is closed, if not as usual.
	Done Done `json:"done,omitempty"`
}

// Done is how a stream is closed.
type Done string

// The ways other than the usual one.
const (
	DoneNever  Done = "none"   // without a mark
	DoneCRLF   Done = "crlf"   // with other line ends
	DoneSplit  Done = "split"  // in two pieces
	DoneQuoted Done = "quoted" // after the mark's text has come where it is none
	DoneOpen   Done = "open"   // and then left open until the caller goes
)

// LoadsOverride replaces single numbers of the load report. It reaches both
// /v1/loads and /metrics.
type LoadsOverride struct {
	// Absent answers 404 on /v1/loads.
	Absent                bool     `json:"absent,omitempty"`
	Running               *int     `json:"num_running_reqs,omitempty"`
	Waiting               *int     `json:"num_waiting_reqs,omitempty"`
	WaitingUncachedTokens *int     `json:"num_waiting_uncached_tokens,omitempty"`
	UsedTokens            *int     `json:"num_used_tokens,omitempty"`
	TokenUsage            *float64 `json:"token_usage,omitempty"`
	GenThroughput         *float64 `json:"gen_throughput,omitempty"`
	CacheHitRate          *float64 `json:"cache_hit_rate,omitempty"`
}

// Validate reports every fault of the document.
func (f Faults) Validate() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if f.Window != nil && *f.Window < 0 {
		bad("window must not be negative")
	}
	if f.KeepAlive < 0 {
		bad("keep_alive must not be negative")
	}
	if f.Reset < 0 {
		bad("reset must not be negative")
	}
	if t := f.Transfer; t != nil {
		if t.Delay < 0 {
			bad("transfer.delay must not be negative")
		}
		if len(t.Params) > 0 && json.Unmarshal(t.Params, new(map[string]json.RawMessage)) != nil {
			bad("transfer.params must be an object")
		}
	}
	for i, r := range f.Rules {
		if err := r.validate(); err != nil {
			bad("rules[%d]: %w", i, err)
		}
	}
	return errors.Join(faults...)
}

func (r Rule) validate() error {
	switch {
	case r.Status != 0 && (r.Status < 200 || r.Status > 599):
		return fmt.Errorf("status must be between 200 and 599, not %d", r.Status)
	case r.Status == 0 && len(r.Body) > 0:
		return errors.New("body needs a status")
	case r.Delay < 0:
		return errors.New("delay must not be negative")
	case r.Match.First < 0 || r.Match.Skip < 0:
		return errors.New("first and skip must not be negative")
	case r.CutBody != nil && *r.CutBody < 0:
		return errors.New("cut_body must not be negative")
	case r.Early && r.Status == 0 && !r.Drop:
		return errors.New("early needs a status or drop")
	case r.Match.Path != "" && !strings.HasPrefix(r.Match.Path, "/"):
		return fmt.Errorf("path must begin with a slash, not %q", r.Match.Path)
	}
	if s := r.Stream; s != nil {
		if !slices.Contains([]Done{"", DoneNever, DoneCRLF, DoneSplit, DoneQuoted, DoneOpen}, s.Done) {
			return fmt.Errorf("stream.done must be none, crlf, split, quoted or open, not %q", s.Done)
		}
		negative := func(p *int) bool { return p != nil && *p < 0 }
		if negative(s.Tokens) || negative(s.CutAfter) || negative(s.StallAfter) || negative(s.FailAfter) ||
			s.MalformedAt < 0 || s.SplitAt < 0 || s.Gap < 0 || s.SplitPause < 0 {
			return errors.New("the numbers of stream must not be negative")
		}
	}
	return nil
}
