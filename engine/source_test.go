package engine

import (
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pieces is a body in pieces, with an end.
type pieces struct {
	left   []string
	end    error
	closed int
}

func (p *pieces) Next() ([]byte, error) {
	if len(p.left) == 0 {
		return nil, p.end
	}
	next := p.left[0]
	p.left = p.left[1:]
	return []byte(next), nil
}

func (p *pieces) Buffered() (n int) {
	for _, s := range p.left {
		n += len(s)
	}
	return n
}

func (p *pieces) Ended() bool { return len(p.left) == 0 && errors.Is(p.end, io.EOF) }
func (p *pieces) Close()      { p.closed++ }

func TestResponseOf(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		end  error
		read func(r *Response) ([]string, error)
		want []string
	}{
		{"piece by piece", io.EOF, byNext, []string{"ab", "cde", "f"}},
		{"broken", broken, byNext, []string{"ab", "cde", "f"}},
		{"by small reads", io.EOF, byRead, []string{"ab", "cd", "e", "f"}},
		{"awaited", io.EOF, func(r *Response) ([]string, error) {
			r.Await()
			r.Await()
			return byNext(r)
		}, []string{"ab", "cde", "f"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := &pieces{left: []string{"ab", "", "cde", "f"}, end: tt.end}
			r := ResponseOf(200, []Field{{"Content-Type", "a/b"}}, -1, src)
			if r.Ended() || r.Buffered() != 6 || !r.Sent() || r.Get("content-type") != "a/b" {
				t.Errorf("%v, %d, %v, %q before anything was read", r.Ended(), r.Buffered(), r.Sent(), r.Get("content-type"))
			}
			got, err := tt.read(r)
			if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.end) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if _, err := r.Next(); !errors.Is(err, tt.end) {
				t.Errorf("the end does not stay: %v", err)
			}
			if r.Ended() != errors.Is(tt.end, io.EOF) || r.Buffered() != 0 {
				t.Errorf("ended %v, with %d bytes", r.Ended(), r.Buffered())
			}
			_ = r.Close()
			_ = r.Close()
			if _, err := r.Next(); src.closed != 1 || !errors.Is(err, ErrClosed) {
				t.Errorf("closed %d times, then %v", src.closed, err)
			}
		})
	}
}

func byNext(r *Response) (got []string, err error) {
	for {
		p, err := r.Next()
		if err != nil {
			return got, err
		}
		got = append(got, string(p))
	}
}

func byRead(r *Response) (got []string, err error) {
	var b [2]byte
	for {
		n, err := r.Read(b[:])
		if err != nil {
			return got, err
		}
		got = append(got, string(b[:n]))
	}
}
