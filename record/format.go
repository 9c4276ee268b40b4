package record

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"smg/wire"
	"smg/worker"
)

// Version is the version of the format. Lines and fields that a reader does not know
// are no reason for another one: readers pass over them.
const Version = 1

// Header is the first line of a file.
type Header struct {
	Version int       `json:"smg_recording"`
	Began   time.Time `json:"began"` // times of lines count from here
	Leg     string    `json:"leg"`
	Policy  string    `json:"policy"` // of models whose workers name none
	Cluster string    `json:"cluster"`
	Replica uint64    `json:"replica,string"`
	Build   string    `json:"build"`         // version of the program
	Whole   bool      `json:"whole_prompts"` // not only their digests
}

// Line is any other line: a time, and one of the rest.
type Line struct {
	At int64 `json:"t"` // microseconds since the begin

	Select *Select `json:"select,omitempty"`
	Begin  *Begin  `json:"begin,omitempty"`
	End    *End    `json:"end,omitempty"`
	Worker *Worker `json:"worker,omitempty"`
	Load   *Load   `json:"load,omitempty"`
	Lost   *Lost   `json:"lost,omitempty"`
	Close  *Close  `json:"close,omitempty"`
}

// Since is the time of the line.
func (l *Line) Since() time.Duration { return time.Duration(l.At) * time.Microsecond }

// Select is a question to the selector, and its answer.
type Select struct {
	Lease Lease  `json:"lease"`
	Model string `json:"model,omitempty"` // canonical id where it is known
	Keys  Keys   `json:"keys,omitzero"`
	// Target is the number of a request for a worker by number, and -1 for one that
	// is no number.
	Target *int   `json:"target,omitempty"`
	Skip   int    `json:"skip,omitempty"` // workers tried before
	Fit    *Fit   `json:"fit,omitempty"`  // who could be chosen, nil for everybody
	Chars  int64  `json:"chars,omitempty"`
	Tokens int64  `json:"tokens,omitempty"`
	Space  string `json:"namespace,omitempty"`
	// Seen is how many characters or tokens Text, IDs, WholeText or WholeIDs are of:
	// those that the selector was told.
	Seen int `json:"seen,omitempty"`
	// Text and IDs are the digests of the prompt's blocks, told as text or as tokens;
	// in a file with whole prompts they are empty, and the others hold the prompt.
	Text      []byte   `json:"text,omitempty"`
	IDs       []byte   `json:"ids,omitempty"`
	WholeText string   `json:"prompt,omitempty"`
	WholeIDs  []uint32 `json:"prompt_ids,omitempty"`

	// Worker is the number of the one chosen, or 0 and Error says why there is none.
	Worker int    `json:"worker,omitempty"`
	Error  string `json:"error,omitempty"`
	Policy string `json:"policy,omitempty"` // if it is not the header's
	Branch string `json:"branch,omitempty"`
	Credit int64  `json:"credit,omitempty"` // tokens
	Probe  bool   `json:"probe,omitempty"`
}

// Keys are a request's routing keys. A key is only good for being compared with
// others of the same file.
type Keys struct {
	RID          string `json:"rid,omitempty"`
	Header       string `json:"header,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Pinned       string `json:"pinned,omitempty"`
	Implicit     string `json:"implicit,omitempty"`
}

// Fit is what a worker had to be in order to be chosen. What is empty fits everybody.
type Fit struct {
	Runtime   string   `json:"runtime,omitempty"`
	Connector string   `json:"connector,omitempty"`
	Group     string   `json:"group,omitempty"`
	Groups    []string `json:"groups,omitempty"` // one of these; "" is that of workers without a group
}

// Begin is the begin of a call at a worker.
type Begin struct {
	Lease  Lease `json:"lease"`
	Worker int   `json:"worker"`
	Tokens int64 `json:"tokens,omitempty"`
}

// End is the end of a call.
type End struct {
	Lease     Lease  `json:"lease"`
	Outcome   string `json:"outcome"` // success, failure or neutral
	Unreached bool   `json:"unreached,omitempty"`
}

// Worker is a worker of the leg as it is from here on.
type Worker struct {
	Number  int      `json:"n"` // from 1
	ID      string   `json:"id"`
	URL     string   `json:"url,omitempty"`
	Models  []string `json:"models,omitempty"`
	Kind    *Fit     `json:"kind,omitempty"` // with whom it shares requests, nil for a regular worker
	Status  string   `json:"status,omitempty"`
	Breaker string   `json:"breaker,omitempty"`
	Veto    bool     `json:"overloaded,omitempty"`
	Gone    bool     `json:"gone,omitempty"` // registered no more; nothing else is told then
}

// Load is what a worker said of its load.
type Load struct {
	Number     int     `json:"n"`
	Age        int64   `json:"age"` // microseconds since it was asked
	Waiting    int64   `json:"waiting"`
	Queued     int64   `json:"queued"` // tokens, or -1
	Running    int64   `json:"running"`
	MaxRunning int64   `json:"max_running,omitempty"`
	Throughput float64 `json:"throughput,omitempty"`
	KVUsage    float64 `json:"kv_usage"`
}

// Lost says that something is missing.
type Lost struct {
	Records uint64 `json:"records"` // since the line before this one of its kind
}

// Close is the last line of a file that is whole.
type Close struct {
	Selects uint64 `json:"selects"`
	Lost    uint64 `json:"lost"`
}

// Lease names a call: the incarnation of its ingress, the number of its plan and, on
// the encode leg, that of the item, with a stroke between them.
type Lease struct {
	Incarnation, Plan uint64
	Item              uint16
}

var (
	_ encoding.TextMarshaler   = Lease{}
	_ encoding.TextUnmarshaler = (*Lease)(nil)
)

func leaseOf(id worker.LeaseID) Lease { return Lease{id.Incarnation, id.Plan, id.Item} }

// AppendText implements [encoding.TextAppender].
func (l Lease) AppendText(buf []byte) ([]byte, error) {
	buf = strconv.AppendUint(buf, l.Incarnation, 10)
	buf = strconv.AppendUint(append(buf, '/'), l.Plan, 10)
	if l.Item > 0 {
		buf = strconv.AppendUint(append(buf, '/'), uint64(l.Item), 10)
	}
	return buf, nil
}

// MarshalText implements [encoding.TextMarshaler].
func (l Lease) MarshalText() ([]byte, error) { return l.AppendText(nil) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *Lease) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), "/")
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%q names no call", text)
	}
	var n [3]uint64
	for i, part := range parts {
		var err error
		if n[i], err = strconv.ParseUint(part, 10, [...]int{64, 64, 16}[i]); err != nil {
			return fmt.Errorf("%q names no call", text)
		}
	}
	*l = Lease{n[0], n[1], uint16(n[2])}
	return nil
}

// maxTokens is more than a prompt has.
const maxTokens = math.MaxInt32

// check says what is wrong with a question that is read.
func (s *Select) check() error {
	told, unit := 0, "tokens"
	for _, has := range []bool{len(s.Text) > 0, len(s.IDs) > 0, s.WholeText != "", len(s.WholeIDs) > 0} {
		if has {
			told++
		}
	}
	blocks, digests := Blocks(s.Seen), s.IDs
	if len(s.Text) > 0 {
		blocks, digests, unit = textBlocks(s.Seen), s.Text, "characters"
	}
	switch {
	case s.Chars < 0 || s.Tokens < 0 || s.Credit < 0 || s.Skip < 0 || s.Chars > CharsPerToken*maxTokens || s.Tokens > maxTokens:
		return errors.New("a number that cannot be")
	case told > 1:
		return errors.New("the prompt is told twice")
	case s.Seen < 0 || s.Seen > wire.MaxText || (told == 0) != (s.Seen == 0):
		return fmt.Errorf("a prompt of which %d characters or tokens are told", s.Seen)
	case len(digests) > 0 && len(digests) != DigestBytes*blocks:
		return fmt.Errorf("%d bytes of digests for %d %s, %d are right", len(digests), s.Seen, unit, DigestBytes*blocks)
	case s.WholeText != "" && utf8.RuneCountInString(s.WholeText) != s.Seen, len(s.WholeIDs) > 0 && len(s.WholeIDs) != s.Seen:
		return fmt.Errorf("the prompt is not of %d characters or tokens", s.Seen)
	}
	return nil
}

// check says what is wrong with a load that is read.
func (l *Load) check() error {
	if l.Age < 0 || l.Waiting < 0 || l.Queued < worker.NotReported || l.Running < 0 || l.MaxRunning < 0 || l.Throughput < 0 || l.KVUsage < 0 {
		return errors.New("a number that cannot be")
	}
	return nil
}
