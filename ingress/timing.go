package ingress

import (
	"strconv"
	"sync/atomic"
	"time"
)

// timingHeader tells a client what the steps of its request took.
const timingHeader = "Server-Timing"

// timing is what the steps of an attempt took, as far as they have ended. It belongs
// to the goroutine of the handler, except for prefilled. Its clock is
// [exchange.elapsed].
type timing struct {
	step     time.Duration // when the step under way began
	selected time.Duration
	encoded  time.Duration // negative if nothing was encoded

	// When the legs' requests began to be sent, and when the answer's head went out with
	// the first of its body.
	dispatched, headed time.Duration

	// How long prefill took, in nanoseconds, 0 as long as it has not ended. It may do
	// so on a goroutine of its own, while the answer is on its way.
	prefilled atomic.Int64
}

// begin begins an attempt.
func (t *timing) begin(now time.Duration) {
	t.step, t.selected, t.encoded = now, 0, -1
	t.prefilled.Store(0)
}

// next ends a step, begins another, and says what the one that has ended took.
func (t *timing) next(now time.Duration) time.Duration {
	took := now - t.step
	t.step = now
	return took
}

// moments are what several legs took: from the dispatch to the answer's first byte, from
// prefill's own dispatch to the end of its answer, and from that to the first byte. Whole
// is false if nobody has prefilled, or prefill's answer is not complete yet.
func (t *timing) moments() (first, prefill, transfer time.Duration, whole bool) {
	first = t.headed - t.dispatched
	prefill = time.Duration(t.prefilled.Load())
	return first, prefill, max(0, first-max(0, t.encoded)-prefill), prefill > 0
}

// prefillTook notes what prefill took.
func (t *timing) prefillTook(d time.Duration) { t.prefilled.Store(max(1, int64(d))) }

// header is the field's value at the moment when the answer's head goes out, in
// milliseconds: that of decode ends there.
func (t *timing) header(now time.Duration) string {
	var room [128]byte
	b := appendStep(room[:0], "select", t.selected)
	if t.encoded >= 0 {
		b = appendStep(b, "encode", t.encoded)
	}
	if d := t.prefilled.Load(); d > 0 {
		b = appendStep(b, "prefill", time.Duration(d))
	}
	return string(appendStep(b, "decode", now-t.step))
}

// appendStep appends a step, with a comma if it is not the first.
func appendStep(b []byte, name string, took time.Duration) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(append(b, name...), ";dur="...)
	// The shortest number that means these microseconds has three decimals at most.
	return strconv.AppendFloat(b, float64(max(0, took.Microseconds()))/1000, 'f', -1, 64)
}
