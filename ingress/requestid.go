package ingress

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"unicode/utf8"
)

// requestIDHeader is where clients find the id of their request, and vLLM's engines that
// of their part.
const requestIDHeader = "X-Request-Id"

// maxRequestID is how long an id may be that a client gives its request.
const maxRequestID = 256

// identify gives the request its id, the client's if it has given one, and tells the
// client of it.
func (x *exchange) identify(r *http.Request) {
	for _, name := range x.srv.idHeaders {
		if v := r.Header[name]; len(v) > 0 && soundID(v[0]) {
			x.id[0] = v[0]
			break
		}
	}
	if x.id[0] == "" {
		x.id[0], x.named = newID(idPrefix(r.URL.Path)), true
	}
	for _, name := range [...]string{requestIDHeader, "X-Correlation-Id"} {
		if v, ok := r.Header[name]; ok && (len(v) == 0 || !soundID(v[0])) {
			delete(r.Header, name) // what is no id here is none for engines
		}
	}
	x.w.Header()[requestIDHeader] = x.id[:1:1]
}

// soundID says whether an id can be passed on, and written to logs.
func soundID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(id) // what gathers traces takes nothing else, and drops what came with it
}

// idPrefix is what an id begins with that the gateway makes up for a path.
func idPrefix(path string) string {
	for _, of := range [...]struct{ end, prefix string }{
		{"/chat/completions", "chatcmpl-"},
		{"/completions", "cmpl-"},
		{"/generate", "gnt-"},
		{"/responses", "resp-"},
		{"/messages", "msg_"},
	} {
		if strings.HasSuffix(path, of.end) {
			return of.prefix
		}
	}
	return "req-"
}

// newID is prefix and 24 letters and digits, which differ from request to request.
func newID(prefix string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	const count, each = 24, 8 // so many digits of a draw are as good as even
	var room [len("chatcmpl-") + count]byte
	id := append(room[:0], prefix...)
	for range count / each {
		draw := rand.Uint64()
		for range each {
			id = append(id, alphabet[draw%uint64(len(alphabet))])
			draw /= uint64(len(alphabet))
		}
	}
	return string(id)
}
