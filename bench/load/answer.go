package load

import (
	"bytes"
	"net/http"

	"smg/bench/internal/http1"
)

// answer follows one answer and compares it with what is wanted.
type answer struct {
	want []byte  // nil: anything
	keep *[]byte // where the content goes, if anywhere
	mark []byte  // looked for in the head, unless empty

	began bool
	head  []byte // as far as it has come, while it is not whole
	body  http1.Body
	in    bool // in the body
	close bool
	at    int // content bytes so far
	fault error

	marked bool // the head has the mark
}

// reset makes a ready for the next answer.
func (a *answer) reset() { *a = answer{want: a.want, keep: a.keep, mark: a.mark, head: a.head[:0]} }

// feed follows p. done says that the answer is whole; a fault ends it for good.
func (a *answer) feed(p []byte) (done bool, fault error) {
	a.began = true
	if !a.in {
		var err error
		if p, err = a.takeHead(p); err != nil || !a.in {
			return false, err
		}
	}
	n, err := a.body.Feed(p, a.compare)
	switch {
	case err != nil:
		return false, ErrFraming
	case a.fault != nil:
		return false, a.fault
	case !a.body.Done():
		return false, nil
	case n < len(p):
		return false, ErrSurplus
	case a.want != nil && a.at != len(a.want):
		return false, ErrBody
	}
	return true, nil
}

// takeHead returns what follows the head, once that is whole.
func (a *answer) takeHead(p []byte) ([]byte, error) {
	src := p
	if len(a.head) > 0 {
		a.head = append(a.head, p...)
		src = a.head
	}
	head, whole, err := http1.ParseHead(src)
	if err != nil {
		return nil, ErrFraming
	}
	if !whole {
		if len(a.head) == 0 {
			a.head = append(a.head, p...)
		}
		return nil, nil
	}
	if head.Length < 0 && !head.Chunked {
		return nil, ErrFraming
	}
	if head.Status != http.StatusOK {
		return nil, ErrStatus
	}
	a.in, a.close, a.body = true, head.Close, head.Body()
	a.marked = len(a.mark) > 0 && bytes.Contains(src[:head.Size], a.mark)
	return src[head.Size:], nil
}

func (a *answer) compare(p []byte) {
	if a.want != nil && (a.at+len(p) > len(a.want) || !bytes.Equal(p, a.want[a.at:a.at+len(p)])) {
		a.fault = ErrBody
	}
	if a.keep != nil {
		*a.keep = append(*a.keep, p...)
	}
	a.at += len(p)
}
