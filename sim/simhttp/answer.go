package simhttp

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"smg/sim/simctl"
)

// answer is a ResponseWriter that remembers its status, stands still while the
// engine is frozen, and breaks off where a rule says so.
type answer struct {
	http.ResponseWriter
	req    *http.Request
	faults *faultBox
	rule   *simctl.Rule // may be nil
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if err := a.faults.frozen(a.req.Context()); err != nil {
		return 0, err
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// flush sends what has been written. A caller that has gone is noticed through
// the request's context.
func (a *answer) flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// whole sends a complete body, or as much of it as a rule lets through.
func (a *answer) whole(status int, body []byte) {
	if a.faults.frozen(a.req.Context()) != nil {
		return
	}
	a.Header().Set("Content-Length", strconv.Itoa(len(body)))
	a.WriteHeader(status)
	if a.rule != nil && a.rule.CutBody != nil && *a.rule.CutBody < len(body) {
		_, _ = a.Write(body[:*a.rule.CutBody])
		a.flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = a.Write(body)
}

// events is a server-sent event stream with the faults of a rule.
type events struct {
	*answer
	fault simctl.StreamFault
	sent  int
	open  bool
	// failure is the event of a failure that a rule wants, which ends the stream.
	failure func() []byte
}

// errFailed ends a stream that a rule has had fail.
var errFailed = errors.New("the stream has failed")

func (a *answer) events() *events {
	ev := &events{answer: a}
	if a.rule != nil && a.rule.Stream != nil {
		ev.fault = *a.rule.Stream
	}
	return ev
}

// begin sends the headers. It may be called again.
func (ev *events) begin() {
	if ev.open {
		return
	}
	ev.open = true
	ev.Header().Set("Content-Type", cmp.Or(ev.fault.Type, "text/event-stream; charset=utf-8"))
	ev.Header().Set("Cache-Control", "no-cache")
	ev.WriteHeader(http.StatusOK)
	ev.flush()
	ev.breakOff()
}

// breakOff cuts or stalls the stream if enough events are out. A stall lasts
// until the caller goes.
func (ev *events) breakOff() {
	if k := ev.fault.CutAfter; k != nil && ev.sent >= *k {
		panic(http.ErrAbortHandler)
	}
	if k := ev.fault.StallAfter; k != nil && ev.sent >= *k {
		ev.flush()
		<-ev.req.Context().Done()
		panic(http.ErrAbortHandler)
	}
}

// send writes one event; frame is complete, from "data: " to the empty line.
// Without faults it is flushed only by the caller, so that events which are
// due at once leave together.
func (ev *events) send(frame []byte) error {
	ev.begin()
	f := &ev.fault
	if k := f.FailAfter; k != nil && ev.sent >= *k {
		_, _ = ev.Write(ev.failure())
		ev.done()
		return errFailed
	}
	if f.Gap > 0 {
		if err := sleep(ev.req.Context(), time.Duration(f.Gap)); err != nil {
			return err
		}
	}
	if ev.sent+1 == f.MalformedAt {
		frame = []byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"cont\n\n")
	}
	if f.SplitAt > 0 && f.SplitAt < len(frame) {
		if _, err := ev.Write(frame[:f.SplitAt]); err != nil {
			return err
		}
		ev.flush()
		if err := sleep(ev.req.Context(), time.Duration(f.SplitPause)); err != nil {
			return err
		}
		frame = frame[f.SplitAt:]
	}
	if _, err := ev.Write(frame); err != nil {
		return err
	}
	ev.sent++
	if *f != (simctl.StreamFault{}) {
		ev.flush()
		ev.breakOff()
	}
	return nil
}

// done ends the stream. The closing mark is no event: rules do not count it.
func (ev *events) done() {
	ev.begin()
	if ev.fault.SplitAt > 0 {
		ev.flush()
	}
	const mark = "data: [DONE]"
	ends := "\n\n"
	switch ev.fault.Done {
	case simctl.DoneNever:
		return
	case simctl.DoneCRLF:
		ends = "\r\n\r\n"
	case simctl.DoneQuoted:
		_, _ = ev.Write([]byte(`data: {"choices":[],"text":"data: [DONE]\n\ndata: [DONE]\r\n\r\n"}` + "\n\n: " + mark + ends))
		ev.flush()
	case simctl.DoneSplit:
		_, _ = ev.Write([]byte(mark[:8]))
		ev.flush()
		if sleep(ev.req.Context(), time.Duration(ev.fault.SplitPause)) != nil {
			return
		}
		_, _ = ev.Write([]byte(mark[8:] + ends))
		ev.flush()
		return
	case simctl.DoneOpen:
	}
	_, _ = ev.Write([]byte(mark + ends))
	ev.flush()
	if ev.fault.Done == simctl.DoneOpen {
		<-ev.req.Context().Done()
		panic(http.ErrAbortHandler)
	}
}
