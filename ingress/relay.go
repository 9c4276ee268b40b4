package ingress

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"smg/engine"
	"smg/worker"
)

// errCut says that an answer broke off after its first byte: the client can tell
// only by its connection being cut.
var errCut = errors.New("the answer broke off")

// relay sends an engine's answer to the client as it comes, and ends the lease.
// Nothing is written before the first byte of the body is there, so a body that
// breaks off before it can still become an error. A stream is flushed when the
// engine has nothing more to read, never per chunk.
//
// The lease of a stream ends after its last byte was written; that of any other
// answer ends when the engine has given its last byte, before the client sees it.
//
// While there is another attempt, an answer that it may better is not relayed.
func (x *exchange) relay(resp *engine.Response, c *call) error {
	url := c.pick.Worker.URL
	if c.leg() == worker.Regular && retried(resp.Status) {
		if !x.last {
			c.end(c.outcome(resp.Status), false)
			return &problem{status: resp.Status, code: "upstream_error", retryable: true, message: "worker " + url + " answered " + resp.Reason}
		}
		x.exhausted(c.leg(), x.query.route)
	}
	sse, src, length := x.answersEvents(resp), source(resp), resp.ContentLength
	x.ranksAnswer(resp)
	if x.rewrite != nil && resp.Get("Content-Encoding") == "" {
		w := x.rewritten(resp, sse)
		defer w.release()
		src, length = w, -1
	}
	piece, err := src.Next()
	if p := x.misranked(c); p != nil {
		return p
	}
	var begin gathered
	defer begin.release()
	if err == nil && resp.Status < 300 && resp.Get("Content-Encoding") == "" {
		var f fault
		failed := false
		switch {
		case sse && c.isLeg():
			var event []byte
			piece, event, err = firstEvent(src, piece)
			f, failed = streamFault(event)
		case sse: // nothing of it waits for the rest of its event
			f, failed = streamFault(wholeEvent(piece))
		case c.isLeg() || givesJSON(resp):
			if piece, err = begin.rest(src, length, piece, &x.srv.buffers); src.Ended() {
				f, failed = answerFault(piece)
			}
			if !c.isLeg() {
				err = nil // the client gets what has come, and the next read says so again
			}
		}
		if failed && err == nil {
			return x.hidden(c, f)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return x.broken(c, false, err)
	}
	limit := x.srv.cfg.MaxPayloadBytes
	if !sse && max(length, int64(len(piece))) > limit {
		c.end(worker.Neutral, false)
		return gatewayProblem(http.StatusBadGateway, "upstream_response_too_large", "the answer of worker %s is larger than the limit of %d bytes (--max-payload-size)", url, limit)
	}
	outcome := c.outcome(resp.Status)
	switch {
	case sse:
		length = -1 // an error event may follow
	case src.Ended():
		c.end(outcome, false)
		if length < 0 {
			length = int64(len(piece))
		}
	}
	x.writeHead(resp, url, sse, length)
	if resp.Sent() {
		x.dropBody(c)
	}
	sent := int64(0)
	last := tail{'\n', '\n'} // a stream begins where an event may
	finds := sse && c.leg() == worker.Decode
	for err == nil {
		if sent += int64(len(piece)); sent > limit && !sse {
			c.end(worker.Neutral, false)
			return errCut
		}
		ended := src.Ended()
		if ended && !sse {
			c.end(outcome, false)
		}
		done := finds && hasDone(piece, endsLine(last[1]))
		if x.write(piece, length < 0 && !ended && (done || src.Buffered() == 0)) != nil {
			c.end(worker.Neutral, false)
			return errClientGone
		}
		if done {
			c.end(outcome, false)
			return x.seenOut(resp)
		}
		last.note(piece)
		piece, err = src.Next()
	}
	if errors.Is(err, io.EOF) {
		c.end(outcome, false)
		return x.finish()
	}
	err = x.broken(c, true, err)
	var p *problem
	switch {
	case !errors.As(err, &p):
		return err
	case !sse || resp.Get("Content-Encoding") != "":
		// What has come goes out first: a connection that ends without a head looks like one
		// on which nothing was read.
		if x.write(nil, true) != nil {
			return errClientGone
		}
		return errCut
	case x.write(x.errorEvent(p, last), true) != nil:
		return errClientGone
	}
	x.failed = p
	return nil
}

// doneGrace is how long an engine may take to end a stream that it has called done.
const doneGrace = 100 * time.Millisecond

// seenOut ends an answer whose last event is out. Whatever becomes of the engine's side
// is no matter any more; if it ends soon, its connection can be used again.
func (x *exchange) seenOut(resp *engine.Response) error {
	if err := x.finish(); err != nil || resp.Ended() {
		return err
	}
	t := time.AfterFunc(doneGrace, func() { x.ctx.end(left) })
	defer t.Stop()
	for {
		if _, err := resp.Next(); err != nil {
			return nil //nolint:nilerr // it was whole before
		}
	}
}

// broken ends the lease of an answer that ended in err, and words the error.
func (x *exchange) broken(c *call, begun bool, err error) error {
	if fault := x.upload.fault(); fault != nil {
		c.end(worker.Neutral, false)
		return fault
	}
	if x.ctx.Err() != nil {
		c.end(x.givenUp(), false)
		return contextProblem(&x.ctx, "the answer of worker "+c.pick.Worker.URL+" was awaited")
	}
	if errors.Is(err, engine.ErrCanceled) { // another leg's failure ended this one
		c.end(worker.Neutral, false)
		if begun {
			return brokenProblem(c, begun, c.dropped())
		}
		return errLegDropped
	}
	c.why = "its answer broke off: " + reason(err).Error()
	c.end(worker.Failure, false)
	return brokenProblem(c, begun, err)
}

// streamed has a decode worker's error reach a client that asked for a stream as
// one.
func (x *exchange) streamed(p *problem) *problem {
	if x.query.stream {
		p.form = eventForm
	}
	return p
}

// write passes b to the client and, if flush, on to the network.
func (x *exchange) write(b []byte, flush bool) error {
	x.watch.begin(taking)
	defer x.watch.end()
	if _, err := x.w.Write(b); err != nil || !flush {
		return err
	}
	return http.NewResponseController(x.w).Flush()
}

// finish sees an answer out. On HTTP/1 the server does that, on a connection that
// [front.Conn] watches; on HTTP/2 it would wait without end for a client that gives
// a stream no more room.
func (x *exchange) finish() error {
	if x.watch.conn != nil {
		return nil
	}
	if x.write(nil, true) != nil {
		return errClientGone
	}
	return nil
}

const eventStream = "text/event-stream"

// answersEvents says whether the client is to get an event stream.
func (x *exchange) answersEvents(resp *engine.Response) bool {
	return x.query.stream && resp.Status < 300 || isEventStream(resp.Get("Content-Type"))
}

func isEventStream(contentType string) bool {
	return len(contentType) >= len(eventStream) && strings.EqualFold(contentType[:len(eventStream)], eventStream)
}

// writeHead sends the engine's status and fields, without those that belong to
// the connection or to the gateway, and what the steps took. A negative length is not
// known yet.
func (x *exchange) writeHead(resp *engine.Response, url string, sse bool, length int64) {
	h := x.w.Header()
	values := make([]string, len(resp.Fields)+3) // one block for what is one string each
	for i, f := range resp.Fields {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		switch {
		case dropsToClient(name):
		case h[name] == nil:
			values[i] = f.Value
			h[name] = values[i : i+1 : i+1]
		default:
			h[name] = append(h[name], f.Value)
		}
	}
	for _, f := range resp.Fields {
		if strings.EqualFold(f.Name, "Connection") {
			dropNamed(h, f.Value)
		}
	}
	if sse && !isEventStream(h.Get("Content-Type")) {
		h["Content-Type"] = []string{eventStream}
	}
	own := values[len(resp.Fields):]
	own[0] = url
	h["X-Smg-Routed-Worker-Id"] = own[:1:1]
	x.upload.partial()
	x.timing.headed = x.elapsed()
	own[1] = x.timing.header(x.timing.headed)
	if engines := h[timingHeader]; engines == nil {
		h[timingHeader] = own[1:2:2]
	} else {
		h[timingHeader] = append(engines, own[1])
	}
	if length >= 0 {
		own[2] = strconv.FormatInt(length, 10)
		h["Content-Length"] = own[2:]
	}
	x.w.WriteHeader(resp.Status)
	x.headSent = true
}

// dropNamed drops the fields that a Connection field names: they were meant for
// the gateway.
func dropNamed(h http.Header, options string) {
	for option := range strings.SplitSeq(options, ",") {
		if name := textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(option)); name != "Content-Type" && name != "Content-Encoding" && name != requestIDHeader {
			delete(h, name)
		}
	}
}

// dropsToClient says whether a field of an engine's answer stays behind. The
// length is written anew, to match what is sent.
func dropsToClient(canonical string) bool {
	switch canonical {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Trailers",
		"Transfer-Encoding", "Upgrade", "Host", "Content-Length", "X-Smg-Error-Code", "X-Smg-Routed-Worker-Id", "X-Smg-Degraded", attemptsHeader, requestIDHeader:
		return true
	}
	return strings.HasPrefix(canonical, corsPrefix) // the gateway's own are meant
}

// tail is the last two bytes of a stream, to find an event's border.
type tail [2]byte

func (t *tail) note(b []byte) {
	switch len(b) {
	case 0:
	case 1:
		t[0], t[1] = t[1], b[0]
	default:
		*t = tail(b[len(b)-2:])
	}
}

// errorEvent is the last event of a stream that broke: closed off from an event
// that was cut in the middle.
func (x *exchange) errorEvent(p *problem, last tail) []byte {
	var b []byte
	switch {
	case last == tail{'\n', '\n'}:
	case last[1] == '\n':
		b = append(b, '\n')
	default:
		b = append(b, "\n\n"...)
	}
	if x.route != nil && x.route.endpoint == endpointMessages {
		return p.namedEvent(b)
	}
	b = append(b, "data: "...)
	b = append(b, p.json()...)
	return append(b, "\n\n"...)
}
