package ingress

import (
	"net/http"
	"unicode/utf8"

	"smg/wire"
	"smg/worker"
)

// inputs are what the policies of a request's legs read of it.
type inputs struct {
	keys   worker.Keys
	target string
}

// gather finds what at least one of the legs reads. The routing-key header is
// always looked for: calls in flight are told apart by it.
func (s *Server) gather(q *query, h http.Header) {
	var reads wire.Reads
	for _, leg := range s.cfg.Mode.Legs() {
		reads |= s.reads(leg)
	}
	in := &q.inputs
	in.keys = s.keys(h, reads)
	if reads&wire.ReadsKey != 0 {
		in.target = h.Get("X-Smg-Target-Worker")
	}
}

// fill puts into an ask what its leg reads.
func (q *query) fill(ask *wire.Select, reads wire.Reads) {
	in := &q.inputs
	ask.Keys = in.keys
	if reads&wire.ReadsImplicitKey == 0 {
		ask.Keys.Implicit = worker.Key{}
	}
	ask.Target = in.target
}

// maxKeyBytes is the longest routing key that counts.
const maxKeyBytes = 128

// pinnedHeader is the key of policy manual, whatever the routing-key headers.
const pinnedHeader = "X-Smg-Routing-Key"

// implicitKeys are the headers that serve as a key when no routing key is sent.
var implicitKeys = [...]string{"Authorization", "X-Forwarded-For", "Cookie"}

// keys are the request's routing keys. Of a header that is repeated only the first
// value counts.
func (s *Server) keys(h http.Header, reads wire.Reads) (k worker.Keys) {
	for _, name := range s.keyHeaders {
		if v := h[name]; len(v) > 0 && v[0] != "" && len(v[0]) <= maxKeyBytes && utf8.ValidString(v[0]) {
			k.Header = worker.HashKey(v[0])
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
