package ingress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"smg/engine"
	"smg/worker"
)

// relayed is how the relay of an answer ended.
type relayed struct {
	outcome worker.Outcome
	// err is what the client has to be told or, when a part of the answer is out
	// already, why its connection has to be cut (errCut, errClientGone).
	err error
}

// errCut says that an answer broke off after its first byte: the client can tell
// only by its connection being cut.
var errCut = errors.New("the answer broke off")

// relay sends an engine's answer to the client as it comes. Nothing is written
// before the first byte of the body is there, so a body that breaks off before it
// can still become an error. It flushes when the engine has nothing more to read,
// never per chunk.
func (x *exchange) relay(resp *engine.Response, url string) relayed {
	piece, err := resp.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return x.broken(err, url)
	}
	sse := x.writeHead(resp, url)
	out := worker.Neutral
	switch s := resp.Status; {
	case s == http.StatusRequestTimeout || s == http.StatusInternalServerError || s == http.StatusBadGateway || s == http.StatusGatewayTimeout:
		out = worker.Failure
	case s < 400:
		out = worker.Success
	}
	var sent int64
	var tail [2]byte // the last bytes sent, to find an event's border
	for err == nil {
		if sent += int64(len(piece)); sent > x.srv.cfg.MaxPayloadBytes && !sse {
			return relayed{out, errCut}
		}
		flush := resp.Buffered() == 0 && !resp.Ended()
		if werr := x.write(piece, flush); werr != nil {
			return relayed{worker.Neutral, errClientGone}
		}
		tail = lastTwo(tail, piece)
		piece, err = resp.Next()
	}
	if errors.Is(err, io.EOF) {
		return relayed{outcome: out}
	}
	r := x.broken(err, url)
	if errors.Is(r.err, errClientGone) {
		return r
	}
	if !sse {
		r.err = errCut
		return r
	}
	var p *problem
	if !errors.As(r.err, &p) {
		p = brokenProblem("upstream_stream_error", err, url)
	} else if p.code == "read_response_failed" {
		p.code = "upstream_stream_error"
	}
	r.err = nil
	if x.write(errorEvent(p, tail), true) != nil {
		r.err = errClientGone
	}
	return r
}

// broken judges an answer that ended in err.
func (x *exchange) broken(err error, url string) relayed {
	if x.ctx.Err() != nil {
		r := relayed{worker.Neutral, contextProblem(x.ctx, "the answer of worker "+url+" was awaited")}
		if errors.Is(context.Cause(x.ctx), errDeadline) {
			r.outcome = worker.Failure
		}
		return r
	}
	return relayed{worker.Failure, brokenProblem("read_response_failed", err, url)}
}

// write passes b to the client and, if flush, on to the network.
func (x *exchange) write(b []byte, flush bool) error {
	x.watch.writing()
	_, err := x.w.Write(b)
	if err == nil && flush {
		err = x.flusher.FlushError()
	}
	x.watch.writing()
	return err
}

// writeHead sends the engine's status and fields, without those that belong to
// the connection or to the gateway, and says whether an event stream follows.
func (x *exchange) writeHead(resp *engine.Response, url string) (sse bool) {
	h := x.w.Header()
	for _, f := range resp.Fields {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		if !dropsToClient(name) {
			h[name] = append(h[name], f.Value)
		}
	}
	for _, token := range strings.Split(resp.Get("Connection"), ",") {
		if token = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(token)); token != "" && token != "Content-Type" {
			delete(h, token)
		}
	}
	if x.query.stream && resp.Status < 300 {
		h["Content-Type"] = []string{"text/event-stream"}
	}
	sse = strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
	if resp.ContentLength >= 0 && !sse {
		h["Content-Length"] = []string{strconv.FormatInt(resp.ContentLength, 10)}
	}
	h["X-Smg-Routed-Worker-Id"] = []string{url}
	x.w.WriteHeader(resp.Status)
	x.headSent = true
	return sse
}

// dropsToClient says whether a field of an engine's answer stays behind. The
// length is written anew, to match what is sent.
func dropsToClient(canonical string) bool {
	switch canonical {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Trailers",
		"Transfer-Encoding", "Upgrade", "Host", "Content-Length", "X-Smg-Error-Code", "X-Smg-Routed-Worker-Id":
		return true
	}
	return false
}

// errorEvent is the last event of a stream that broke: closed off from an event
// that was cut in the middle, whose bytes end in tail.
func errorEvent(p *problem, tail [2]byte) []byte {
	var b []byte
	switch {
	case tail[1] == 0 || tail == [2]byte{'\n', '\n'}:
	case tail[1] == '\n':
		b = append(b, '\n')
	default:
		b = append(b, "\n\n"...)
	}
	b = append(b, "data: "...)
	b = append(b, p.json()...)
	return append(b, "\n\n"...)
}

func lastTwo(tail [2]byte, b []byte) [2]byte {
	switch len(b) {
	case 0:
		return tail
	case 1:
		return [2]byte{tail[1], b[0]}
	}
	return [2]byte(b[len(b)-2:])
}
