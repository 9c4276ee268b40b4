package simhttp

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Mode is what an SGLang engine computes of a request.
type Mode string

// The modes of SGLang. Unified engines compute all of it.
const (
	Unified Mode = "null"
	Prefill Mode = "prefill"
	Decode  Mode = "decode"
)

// KVRole is the part of a vLLM engine in handing KV over. The empty role has no
// connector and ignores kv_transfer_params.
type KVRole string

// The roles of vLLM's KV connectors.
const (
	KVProducer KVRole = "kv_producer"
	KVConsumer KVRole = "kv_consumer"
	KVBoth     KVRole = "kv_both"
)

func (r KVRole) sends() bool    { return r == KVProducer || r == KVBoth }
func (r KVRole) receives() bool { return r == KVConsumer || r == KVBoth }

// ECRole is the part of a vLLM engine in handing media embeddings over.
type ECRole string

// The roles of vLLM's encoder cache connectors. A producer without a KVRole
// encodes media and does nothing else.
const (
	ECProducer ECRole = "ec_producer"
	ECConsumer ECRole = "ec_consumer"
)

// The connectors of vLLM that have rules of their own.
const (
	NixlConnector     = "NixlConnector"
	MooncakeConnector = "MooncakeConnector"
)

// connector is how the engine hands KV over, "" if it does not.
func (d Disaggregation) connector() string {
	if d.KVRole == "" {
		return ""
	}
	return cmp.Or(d.Connector, NixlConnector)
}

// LoadFailure is what a vLLM engine does when KV cannot be fetched.
type LoadFailure string

// The policies of vLLM.
const (
	FailRequest LoadFailure = "fail"
	Recompute   LoadFailure = "recompute"
)

// Disaggregation is the engine's part in requests that several engines serve.
// Its times are real time, whatever the time scale.
type Disaggregation struct {
	// Mode is of SGLang, KVRole and ECRole are of vLLM.
	Mode   Mode
	KVRole KVRole
	ECRole ECRole

	// BootstrapPort is where an SGLang prefill engine meets decode engines; a
	// decode engine takes it for requests without a port. SideChannelPort is
	// where a vLLM engine hands KV over. Port 0 listens on a free one.
	BootstrapPort   int
	SideChannelPort int
	// SideChannelHost is what a vLLM engine tells others about itself; empty is
	// the host that it listens on.
	SideChannelHost string
	// EngineID names a vLLM engine; empty makes one up at each start.
	EngineID string
	// Connector is how a vLLM engine with a KVRole hands KV over, empty is
	// [NixlConnector]. One that is neither that nor [MooncakeConnector] needs no tag.
	Connector string
	// Correlate has a vLLM engine hand KV only to a request with the id of the one
	// that it is of, as versions before 0.13 do.
	Correlate bool
	// TokensOnly has a vLLM engine answer /abort_requests.
	TokensOnly bool

	// RefuseLists has an SGLang engine refuse lists of rooms for one prompt with several
	// answers, as some versions do.
	RefuseLists bool

	// BootstrapTimeout is how long the two sides of an SGLang room wait for each
	// other, WaitingTimeout how long anybody waits for KV after that.
	BootstrapTimeout time.Duration
	WaitingTimeout   time.Duration
	// Lease is how long a vLLM engine keeps KV that nobody fetches.
	Lease       time.Duration
	LoadFailure LoadFailure

	// ECPeers are the URLs of encoders, ECDir a directory that encoders and
	// consumers share. A consumer looks for embeddings in both, and encodes by
	// itself what it does not find, or fails if ECStrict is set.
	ECPeers  []string
	ECDir    string
	ECStrict bool
	SGEncoder
	// MediaTokens is what encoding one medium costs, in prefill tokens.
	MediaTokens   int
	MaxMediaBytes int
}

// The ports of the real engines.
const (
	defaultBootstrapPort   = 8998
	defaultSideChannelPort = 5600
)

func defaultDisaggregation() Disaggregation {
	return Disaggregation{
		Mode:             Unified,
		BootstrapPort:    defaultBootstrapPort,
		SideChannelPort:  defaultSideChannelPort,
		BootstrapTimeout: 300 * time.Second,
		WaitingTimeout:   300 * time.Second,
		Lease:            30 * time.Second,
		LoadFailure:      FailRequest,
		SGEncoder:        SGEncoder{EncoderTimeout: 180 * time.Second},
		MediaTokens:      576,
		MaxMediaBytes:    32 << 20,
	}
}

// listens tells the port for other engines, and whether there is one.
func (d Disaggregation) listens(k Kind) (port int, flag string, ok bool) {
	switch {
	case k == SGLang && d.Mode == Prefill:
		return d.BootstrapPort, "--disaggregation-bootstrap-port", true
	case k == VLLM && d.KVRole.sends():
		return d.SideChannelPort, "--kv-side-channel-port", true
	}
	return 0, "", false
}

// encodesOnly reports whether the engine is an encoder.
func (d Disaggregation) encodesOnly() bool { return d.ECRole == ECProducer && d.KVRole == "" }

func (d Disaggregation) validate(k Kind) (faults []error) {
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !slices.Contains([]Mode{Unified, Prefill, Decode}, d.Mode) {
		bad("--disaggregation-mode must be null, prefill or decode, not %q", d.Mode)
	}
	if !slices.Contains([]KVRole{"", KVProducer, KVConsumer, KVBoth}, d.KVRole) {
		bad("--kv-role must be kv_producer, kv_consumer or kv_both, not %q", d.KVRole)
	}
	if !slices.Contains([]ECRole{"", ECProducer, ECConsumer}, d.ECRole) {
		bad("--ec-role must be ec_producer or ec_consumer, not %q", d.ECRole)
	}
	if k == VLLM && d.Mode != Unified {
		bad("--disaggregation-mode is of sglang; the roles of vllm are --kv-role and --ec-role")
	}
	if k == SGLang && (d.KVRole != "" || d.ECRole != "") {
		bad("--kv-role and --ec-role are of vllm; the role of sglang is --disaggregation-mode")
	}
	for _, p := range []struct {
		flag string
		port int
	}{{"--disaggregation-bootstrap-port", d.BootstrapPort}, {"--kv-side-channel-port", d.SideChannelPort}} {
		if p.port < 0 || p.port > 65535 {
			bad("%s must be between 0 and 65535, not %d", p.flag, p.port)
		}
	}
	for _, t := range []struct {
		flag string
		d    time.Duration
	}{{"--bootstrap-timeout", d.BootstrapTimeout}, {"--waiting-timeout", d.WaitingTimeout}, {"--kv-lease", d.Lease}} {
		if t.d <= 0 {
			bad("%s must be positive, not %v", t.flag, t.d)
		}
	}
	if d.Connector != "" && d.KVRole == "" {
		bad("a connector needs a --kv-role")
	}
	if d.LoadFailure != FailRequest && d.LoadFailure != Recompute {
		bad("--kv-load-failure-policy must be fail or recompute, not %q", d.LoadFailure)
	}
	for _, peer := range d.ECPeers {
		if u, err := url.Parse(peer); err != nil || u.Scheme != "http" || u.Host == "" {
			bad("--ec-peers must be URLs like http://HOST:PORT, not %q", peer)
		}
	}
	d.SGEncoder.validate(d, k, bad)
	if d.MediaTokens < 1 || d.MediaTokens > 1<<20 {
		bad("--media-tokens must be between 1 and %d, not %d", 1<<20, d.MediaTokens)
	}
	if d.MaxMediaBytes < 1 {
		bad("--max-media-bytes must be positive, not %d", d.MaxMediaBytes)
	}
	return faults
}
