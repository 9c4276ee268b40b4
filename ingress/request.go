package ingress

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"smg/ingress/body"
	"smg/worker"
)

// query is what the gateway needs to know of a request: read once, then fixed.
type query struct {
	model  string // "" when the request names none
	stream bool
	key    worker.Key
	target string
	bytes  []byte // the body as a worker may see it
}

// budget bounds the memory of all buffered bodies together.
type budget struct {
	left atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.left.Add(-n) >= 0 {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *budget) give(n int64) { b.left.Add(n) }

// growBy is how much room a body without a declared length takes at a time.
const growBy = 64 << 10

// read reads the body whole. It returns what it took from the budget, also on
// error. Nothing is read, and no 100 Continue sent, before limits and budget allow.
func (s *Server) read(r *http.Request) (b []byte, held int64, err error) {
	limit := s.cfg.MaxPayloadBytes
	tooLarge := func() error {
		return gatewayProblem(http.StatusRequestEntityTooLarge, "request_body_too_large", "the request body is larger than the limit of %d bytes (--max-payload-size)", limit)
	}
	if r.ContentLength > limit {
		return nil, 0, tooLarge()
	}
	take := func(n int64) error {
		if !s.budget.take(n) {
			return gatewayProblem(http.StatusServiceUnavailable, "buffer_budget_exhausted", "the memory for request bodies is used up (--max-buffered-bytes-total): try again later")
		}
		held += n
		return nil
	}
	if n := r.ContentLength; n >= 0 {
		if err := take(n); err != nil {
			return nil, held, err
		}
		b = make([]byte, n)
		if _, err := io.ReadFull(r.Body, b); err != nil {
			return nil, held, aborted(err)
		}
		return b, held, nil
	}
	for {
		if len(b) == cap(b) {
			grow := max(int64(cap(b)), growBy)
			if err := take(grow); err != nil {
				return nil, held, err
			}
			b = append(make([]byte, 0, int64(cap(b))+grow), b...)
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > limit {
			return nil, held, tooLarge()
		}
		if errors.Is(err, io.EOF) {
			return b, held, nil
		}
		if err != nil {
			return nil, held, aborted(err)
		}
	}
}

func aborted(err error) error {
	return gatewayProblem(http.StatusBadRequest, "request_body_aborted", "the request body could not be read to its end: %v", err)
}

// parse scans the body and gathers what the policies read.
func (s *Server) parse(rt *route, r *http.Request, raw []byte) (query, error) {
	if rt.plain && !isJSON(r.Header.Get("Content-Type")) {
		return query{}, &problem{status: http.StatusUnsupportedMediaType, form: text, message: "send the body with Content-Type: application/json"}
	}
	b, err := body.Parse(raw, s.cfg.MaxJSONDepth)
	if err == nil {
		err = rt.check(&b)
	}
	if err != nil {
		return query{}, bodyProblem(err, rt.plain)
	}
	q := query{
		model:  b.Model(),
		stream: b.Stream(),
		key:    s.routingKey(r.Header),
		target: r.Header.Get("X-Smg-Target-Worker"),
		bytes:  b.Normalize(),
	}
	if q.model == body.UnknownModel {
		q.model = ""
	}
	return q, nil
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

// maxKeyBytes is the longest routing key that counts.
const maxKeyBytes = 128

// implicitKeys are the headers that serve as a key when no routing key is sent.
var implicitKeys = [...]string{"Authorization", "X-Forwarded-For", "Cookie"}

// routingKey is the request's key: the first valid routing-key header, else the
// first implicit one that is present and printable.
func (s *Server) routingKey(h http.Header) worker.Key {
	if !s.readsKey() {
		return worker.Key{}
	}
	for _, name := range s.keyHeaders {
		for _, v := range h[name] {
			if v != "" && len(v) <= maxKeyBytes && utf8.ValidString(v) {
				return worker.HashKey(worker.KeyHeader, v)
			}
			break // only the first value of a header counts
		}
	}
	for _, name := range implicitKeys {
		if v := h[name]; len(v) > 0 {
			if v[0] != "" && printable(v[0]) {
				return worker.HashKey(worker.KeyImplicit, v[0])
			}
			return worker.Key{}
		}
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
