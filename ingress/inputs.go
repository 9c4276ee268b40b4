package ingress

import (
	"net/http"
	"unicode/utf8"
	"unsafe"

	"smg/ingress/body"
	"smg/wire"
	"smg/worker"
)

// inputs are what the policies of a request's legs read of it.
type inputs struct {
	keys      worker.Keys
	target    string
	text      string // see room
	chars     int64
	tokens    []uint32
	count     int64 // of all tokens, 0 when they are not known
	namespace uint64
	room      *room
}

// room is memory for the text and the tokens of a request, used again and again.
type room struct {
	text   []byte
	tokens []uint32
}

// readsOfLegs is what at least one of the legs reads that a request has in a mode.
func (s *Server) readsOfLegs(mode Mode) (reads wire.Reads) {
	legs := mode.Legs()
	if s.cfg.Multi {
		legs = allLegs // another attempt may have another mode
	}
	for _, leg := range legs {
		reads |= s.reads(leg)
	}
	if s.ranks != nil {
		reads |= wire.ReadsText
	}
	return reads
}

// gather finds what at least one of the legs reads, and what all of them count by:
// the routing-key header, which tells calls in flight apart, and how many tokens the
// prompt has, if the client says which. What it finds holds until scatter.
func (s *Server) gather(mode Mode, q *query, h http.Header) {
	reads, hinted := s.gatherHead(mode, q, h)
	in := &q.inputs
	if reads&wire.ReadsConversationKey != 0 {
		in.keys.RID = sessionKey(q.body.RID())
	}
	if !hinted && q.route.tokens != nil {
		r := s.room(in)
		in.tokens, in.count = q.route.tokens(&q.body, r.tokens[:0])
		r.tokens = in.tokens
	}
	if s.cfg.PD.LocalPrefill > 0 {
		reads |= wire.ReadsSize
	}
	if reads&(wire.ReadsText|wire.ReadsTokens) != 0 {
		in.namespace = q.route.partition(&q.body)
	}
	if in.count > 0 || reads&(wire.ReadsText|wire.ReadsSize) == 0 {
		return
	}
	limit := 0
	if reads&wire.ReadsText != 0 {
		limit = wire.MaxText
	}
	text, chars := q.route.text(&q.body, &s.room(in).text, limit)
	// No copy: the text lies in the body or in the room, which both stay as they are
	// until the request has no more to ask.
	in.text, in.chars = unsafe.String(unsafe.SliceData(text), len(text)), chars
}

// gatherHead finds what a request's head says of it, and whether that is which tokens
// its prompt has.
func (s *Server) gatherHead(mode Mode, q *query, h http.Header) (reads wire.Reads, hinted bool) {
	reads = s.readsOfLegs(mode)
	in := &q.inputs
	in.keys = s.keys(h, reads)
	if reads&wire.ReadsKey != 0 {
		in.target = h.Get("X-Smg-Target-Worker")
	}
	return reads, s.hint(mode, in, h)
}

// tokenHint is the header by which a client says which tokens its prompt has.
const tokenHint = "X-Smg-Routing-Tokens"

// hint takes the tokens that a header names. They stand for all that the body says.
func (s *Server) hint(mode Mode, in *inputs, h http.Header) bool {
	v := h[tokenHint]
	if len(v) == 0 || mode != Regular {
		return false
	}
	r := s.room(in)
	ids, ok := body.ParseTokens(r.tokens[:0], v[0])
	if ok {
		r.tokens, in.tokens, in.count = ids, ids, int64(len(ids))
	}
	return ok
}

func (s *Server) room(in *inputs) *room {
	if in.room == nil {
		in.room = s.inputRooms.Get().(*room)
	}
	return in.room
}

// scatter gives the memory of a request's inputs back.
func (s *Server) scatter(q *query) {
	if q.inputs.room != nil {
		s.inputRooms.Put(q.inputs.room)
	}
	q.inputs = inputs{}
}

// fill puts into an ask what its leg reads.
func (q *query) fill(ask *wire.Select, reads wire.Reads) {
	in := &q.inputs
	ask.Keys, ask.Target, ask.Tokens = in.keys, in.target, in.count
	if reads&wire.ReadsImplicitKey == 0 {
		ask.Keys.Implicit = worker.Key{}
	}
	if reads&wire.ReadsPinnedKey == 0 {
		ask.Keys.Pinned = worker.Key{}
	}
	if reads&wire.ReadsTokens != 0 {
		ask.TokenIDs = in.tokens
	}
	if reads&wire.ReadsText != 0 {
		ask.Text = in.text
	}
	if reads&(wire.ReadsText|wire.ReadsSize) != 0 {
		ask.Chars = in.chars
	}
	if reads&(wire.ReadsText|wire.ReadsTokens) != 0 {
		ask.Namespace = in.namespace
	}
}

// pinnedHeader is the key of policy manual, whatever the routing-key headers.
const pinnedHeader = "X-Smg-Routing-Key"

// implicitKeys are the headers that serve as a key when no routing key is sent.
var implicitKeys = [...]string{"Authorization", "X-Forwarded-For", "Cookie"}

// keys are the request's routing keys. Of a header that is repeated only the first
// value counts.
func (s *Server) keys(h http.Header, reads wire.Reads) (k worker.Keys) {
	for _, name := range s.keyHeaders {
		if v := h[name]; len(v) > 0 && v[0] != "" && len(v[0]) <= body.MaxKeyBytes && utf8.ValidString(v[0]) {
			k.Header = worker.HashKey(v[0])
			if reads&wire.ReadsConversationKey != 0 {
				k.Conversation = sessionKey(v[0])
			}
			break
		}
	}
	if reads&wire.ReadsPinnedKey != 0 {
		k.Pinned = printableKey(h, pinnedHeader)
	}
	if reads&wire.ReadsImplicitKey != 0 && k.Header.None() {
		// One that cannot be used leaves it to the next.
		for _, name := range implicitKeys {
			if k.Implicit = printableKey(h, name); !k.Implicit.None() {
				break
			}
		}
	}
	return k
}

// sessionKey is the key of the conversation that an id belongs to.
func sessionKey(id string) worker.Key {
	if id = body.SessionKey(id); id == "" {
		return worker.Key{}
	}
	return worker.HashKey(id)
}

func printableKey(h http.Header, name string) worker.Key {
	if v := h[name]; len(v) > 0 && v[0] != "" && printable(v[0]) {
		return worker.HashKey(v[0])
	}
	return worker.Key{}
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
