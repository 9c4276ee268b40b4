package simctl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"
)

// Ledger shows which request holds what. At rest InFlight and BlocksHeld are 0.
type Ledger struct {
	// InFlight counts the requests that have arrived on an inference route and
	// are not answered or abandoned yet, held ones included.
	InFlight int `json:"in_flight"`
	// Held counts those that a rule holds back.
	Held    int `json:"held"`
	Waiting int `json:"waiting"` // sequences in the queue
	Running int `json:"running"` // sequences in the batch
	// Transferring counts the sequences that hold blocks outside the batch:
	// computed ones whose KV waits to be fetched or is being sent, and admitted
	// ones whose KV is still to come.
	Transferring int `json:"transferring"`
	// Rooms counts the bootstrap rooms that a request or a peer has open at
	// this engine's bootstrap port.
	Rooms int `json:"rooms"`

	BlocksTotal  int `json:"blocks_total"`
	BlocksHeld   int `json:"blocks_held"`   // owned by requests
	BlocksCached int `json:"blocks_cached"` // evictable prefix cache
	BlocksFree   int `json:"blocks_free"`

	// Connections counts the open client connections.
	Connections int       `json:"connections"`
	Requests    []Holding `json:"requests"`
}

// Idle reports whether nothing is in flight and no block is held.
func (l Ledger) Idle() bool {
	return l.InFlight == 0 && l.BlocksHeld == 0 && l.Waiting == 0 && l.Running == 0 && l.Transferring == 0 && l.Rooms == 0
}

// Holding is one sequence. A request for n answers is n sequences.
type Holding struct {
	ID     uint64 `json:"id"`
	RID    string `json:"rid"`
	State  string `json:"state"` // "waiting", "running", "sending" or "receiving"
	Blocks int    `json:"blocks"`
	Tokens int    `json:"tokens"` // output tokens so far
}

// Transfers counts what has happened between an engine and others since it
// started.
type Transfers struct {
	// Sent and Received count sequences whose KV has left or come.
	Sent      uint64 `json:"sent"`
	SentBytes uint64 `json:"sent_bytes"`
	Received  uint64 `json:"received"`
	// BootstrapFailed counts sequences whose two sides did not meet, Failed those
	// whose KV did not come after that, or could not be loaded.
	BootstrapFailed uint64 `json:"bootstrap_failed"`
	Failed          uint64 `json:"failed"`
	// Expired counts sequences of vLLM whose KV nobody fetched in time.
	Expired uint64 `json:"expired"`
	// DuplicateRooms counts requests at an SGLang engine for a room that was in use.
	DuplicateRooms uint64 `json:"duplicate_rooms"`
	// Recomputed counts requests at a vLLM consumer that came without usable
	// parameters, or whose KV could not be loaded and was computed there.
	Recomputed uint64 `json:"recomputed"`
	// Encoded counts the media that this engine has encoded. Of those that a
	// consumer had not seen before, EmbeddingHits were found at an encoder and
	// EmbeddingMisses were not.
	Encoded         uint64 `json:"encoded"`
	EmbeddingHits   uint64 `json:"embedding_hits"`
	EmbeddingMisses uint64 `json:"embedding_misses"`
}

// Record is one request as it arrived.
type Record struct {
	Seq     int         `json:"seq"` // 1 is the first since the engine started
	Method  string      `json:"method"`
	Path    string      `json:"path"` // as sent, with the query
	Host    string      `json:"host"`
	Proto   string      `json:"proto"`
	Header  http.Header `json:"header"`
	Body    Body        `json:"body"`
	Conn    int         `json:"conn"` // equal for requests on one connection
	Arrived time.Time   `json:"arrived"`
	Status  int         `json:"status,omitempty"` // 0 while nothing is sent
	// Ended is when the engine had nothing more to do for the request.
	Ended time.Time `json:"ended,omitzero"`
	// CallerClosed is when the caller closed the connection, if it did so
	// before the request had ended.
	CallerClosed time.Time `json:"caller_closed,omitzero"`
	// ConnClosed is when the connection was closed by either side.
	ConnClosed time.Time `json:"conn_closed,omitzero"`
}

// Body is a raw request body. In JSON it is a string, or {"base64": "…"} if it
// is not valid UTF-8.
type Body []byte

type binaryBody struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (b Body) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return json.Marshal(string(b))
	}
	return json.Marshal(binaryBody{Base64: b})
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Body) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*b = Body(text)
		return nil
	}
	var binary binaryBody
	if err := json.Unmarshal(raw, &binary); err != nil {
		return fmt.Errorf("decode recorded body: %w", err)
	}
	*b = binary.Base64
	return nil
}

// EngineInfo is one engine of a process.
type EngineInfo struct {
	Index  int    `json:"index"`
	Addr   string `json:"addr"`
	Engine string `json:"engine"`
	Model  string `json:"model"`
	Role   string `json:"role"` // "null", "prefill", "decode" or "encode"
	// PeerAddr is the bootstrap or side channel port, if there is one.
	PeerAddr string `json:"peer_addr,omitempty"`
}

// Released answers a release.
type Released struct {
	Released int `json:"released"`
}

// Error is what the control API answers to a bad call.
type Error struct {
	Message string `json:"error"`
}
