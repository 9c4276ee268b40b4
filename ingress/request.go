package ingress

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"smg/ingress/body"
)

// query is what the gateway needs to know of a request: read once, then fixed.
type query struct {
	model  string // "" when the request names none
	stream bool
	inputs inputs    // what policies read
	bytes  []byte    // the body as a worker may see it
	body   body.Body // where its keys are
	route  *route
}

const (
	// growBy is how much room a body takes at first, before a byte of it has come. It is
	// little, since a client may begin many at a time.
	growBy = 4 << 10
	// growth is by what its room is multiplied whenever it is full. So a client that
	// declares much and sends little keeps little from others.
	growth = 4
)

// read reads the body whole. It returns what it took from the budget, also on
// error. Nothing is read, and no 100 Continue sent, before type, limits and budget
// allow.
func (x *exchange) read(rt *route, r *http.Request) (b []byte, held int64, err error) {
	refuse := func(p *problem) ([]byte, int64, error) {
		forsake(x.w, r)
		return nil, held, p
	}
	if p := x.unacceptable(rt, r); p != nil {
		return refuse(p)
	}
	limit, flag := x.limit(rt)
	most := r.ContentLength
	if most < 0 {
		most = limit + 1
	} else if most > x.srv.buffers.left.Load() {
		return refuse(exhaustedBudget("request bodies")) // before a byte of it is read
	}
	room := min(growBy, most)
	for {
		if !x.srv.buffers.reserve(room) {
			return refuse(exhaustedBudget("request bodies"))
		}
		held += room
		larger := append(x.srv.buffers.get(held), b...)
		x.srv.buffers.put(b)
		b = larger
		whole, err := x.fill(r, &b, int(held))
		switch {
		case err != nil:
			return nil, held, err
		case int64(len(b)) > limit:
			return refuse(tooLarge(limit, flag))
		case whole:
			return b, held, nil
		}
		room = min(held*(growth-1), most-held)
	}
}

// exhaustedBudget refuses one of such bodies for which there is no memory.
func exhaustedBudget(of string) *problem {
	return gatewayProblem(http.StatusServiceUnavailable, "buffer_budget_exhausted",
		"the memory for %s is used up (--max-buffered-bytes-total): try again later", of)
}

// forsakenFor is how long a client may take to send a body that nobody reads.
const forsakenFor = 2 * time.Second

// forsake bounds the wait for what is left of a request's body, before an answer
// that does not need it: net/http reads on, in order to use the connection again,
// and would wait for a silent client for ever.
func forsake(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		// A connection that takes no deadline is closed already.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(forsakenFor))
	}
}

// fill reads until b holds room bytes or the body is whole.
func (x *exchange) fill(r *http.Request, b *[]byte, room int) (whole bool, err error) {
	if r.ContentLength == 0 {
		return true, nil
	}
	x.watch.begin(uploading)
	defer x.watch.end()
	for len(*b) < room {
		n, err := r.Body.Read((*b)[len(*b):room])
		*b = (*b)[:len(*b)+n]
		x.watch.progress()
		x.watch.pace.came(n, owed(r, len(*b)))
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, x.unreadable(err, x.watch.stalled.Load(), x.srv.cfg.BodyStall)
		}
	}
	return int64(len(*b)) == r.ContentLength, nil
}

// owed is how much of a body is still to come when n bytes have; one of an unknown
// length owes as much again.
func owed(r *http.Request, n int) int64 {
	if r.ContentLength < 0 {
		return int64(n)
	}
	return r.ContentLength - int64(n)
}

// unreadable words why a body could not be read to its end.
func (x *exchange) unreadable(err error, stalled bool, stall time.Duration) error {
	switch {
	case x.watch.pace.slow.Load():
		return gatewayProblem(http.StatusRequestTimeout, "request_body_stalled", "the request body comes too slowly: less than %d bytes in %v", x.srv.watcher.leastPiece(), x.srv.cfg.BodyStall)
	case stalled:
		return gatewayProblem(http.StatusRequestTimeout, "request_body_stalled", "nothing came of the request body for %v", stall)
	case errors.Is(x.ctx.Err(), context.DeadlineExceeded):
		return contextProblem(&x.ctx, "the request body was read")
	}
	// net/http ends the context for malformed bodies too: there may be somebody to
	// answer.
	return gatewayProblem(http.StatusBadRequest, "request_body_aborted", "the request body could not be read to its end: %v", err)
}

func tooLarge(limit int64, flag string) *problem {
	return gatewayProblem(http.StatusRequestEntityTooLarge, "request_body_too_large", "the request body is larger than the limit of %d bytes%s", limit, flag)
}

// parse scans the body and gathers what the policies read.
func (x *exchange) parse(rt *route, r *http.Request, raw []byte) (err error) {
	q := &x.query
	if q.body, err = body.Parse(raw, x.srv.cfg.MaxJSONDepth); err == nil {
		err = rt.check(&q.body)
	}
	if err == nil {
		err = x.unalias()
	}
	if err != nil {
		return x.faulty(rt, err)
	}
	q.model, q.stream, q.route = q.body.Model(), q.body.Stream(), rt
	if q.model == body.UnknownModel {
		q.model = ""
	}
	if x.srv.cfg.Multi {
		if err := x.settle(rt); err != nil {
			return err
		}
	}
	x.srv.gather(x.mode, q, r.Header)
	q.bytes = q.body.Edit(x.srv.foreign...)
	return nil
}

// unalias has the body name the model's own id where the client has used an alias, of
// which engines need not know.
func (x *exchange) unalias() error {
	q := &x.query
	name, ok := q.body.StringBytes(body.KeyModel)
	if !ok {
		return nil
	}
	id, ok := x.srv.fleet.Canonical(string(name))
	if !ok {
		return nil
	}
	b, err := body.Parse(q.body.Edit(body.Set(fieldModel, body.AppendString(nil, id))), x.srv.cfg.MaxJSONDepth)
	if err == nil {
		q.body = b
	}
	return err
}

// fieldModel is where requests name their model.
const fieldModel = "model"

// faulty words a fault of the body. One that is no object has no place for what the
// gateway has to tell the workers that share a request.
func (x *exchange) faulty(rt *route, err error) error {
	var e *body.Error
	if x.mode != Regular && errors.As(err, &e) && e.Kind == body.KindNotObject {
		return gatewayProblem(http.StatusBadRequest, "serialization_failed", "%v", e)
	}
	return bodyProblem(err, rt.plain)
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}
