package http1_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/bench/internal/http1"
)

func TestParseHead(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    string
		want  http1.Head
		whole bool
		err   error
	}{
		{name: "half", in: "GET / HTTP/1.1\r\nHost: a\r\n"},
		{name: "bare_request", in: "GET / HTTP/1.1\r\n\r\nxx", whole: true, want: http1.Head{Size: 18, Length: -1}},
		{name: "length", in: "POST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH:  12 \r\n\r\n", whole: true, want: http1.Head{Size: 50, Length: 12}},
		{
			name: "chunked_answer", in: "HTTP/1.1 503 No\r\nTransfer-Encoding: Chunked\r\nConnection: close\r\n\r\n", whole: true,
			want: http1.Head{Size: 66, Status: 503, Length: -1, Chunked: true, Close: true},
		},
		{name: "length_is_no_number", in: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", whole: true, err: http1.ErrHead},
		{name: "negative_length", in: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", whole: true, err: http1.ErrHead},
		{name: "status_is_no_number", in: "HTTP/1.1 abc OK\r\n\r\n", whole: true, err: http1.ErrHead},
		{name: "no_status", in: "HTTP/1.1 2\r\n\r\n", whole: true, err: http1.ErrHead},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, whole, err := http1.ParseHead([]byte(tt.in))
			if whole != tt.whole || !errors.Is(err, tt.err) {
				t.Fatalf("ParseHead = whole %v, error %v; want %v, %v", whole, err, tt.whole, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ParseHead (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBody(t *testing.T) {
	chunked := http1.Head{Length: -1, Chunked: true}
	for _, tt := range []struct {
		name string
		head http1.Head
		in   string
		want string
		rest string // behind the body
		open bool   // the body has not ended
		err  error
	}{
		{name: "none", head: http1.Head{Length: -1}, in: "abc", rest: "abc"},
		{name: "length", head: http1.Head{Length: 2}, in: "abc", want: "ab", rest: "c"},
		{name: "length_unfinished", head: http1.Head{Length: 4}, in: "abc", want: "abc", open: true},
		{name: "chunks", head: chunked, in: "2\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\nHTTP", want: "ab0123456789", rest: "HTTP"},
		{name: "extension_and_trailer", head: chunked, in: "2;a=b\r\nab\r\n00\r\nX: y\r\n\r\n", want: "ab"},
		{name: "chunks_unfinished", head: chunked, in: "2\r\nab\r\n0\r\n", want: "ab", open: true},
		{name: "no_size", head: chunked, in: "\r\nab", err: http1.ErrChunk},
		{name: "size_too_large", head: chunked, in: "ffffffffffffffff\r\n", err: http1.ErrChunk},
		{name: "chunk_longer_than_its_size", head: chunked, in: "1\r\nab\r\n", want: "a", err: http1.ErrChunk},
	} {
		for _, piece := range []int{1, 2, 3, 1000} {
			t.Run(tt.name, func(t *testing.T) {
				b := tt.head.Body()
				var got []byte
				var err error
				in := []byte(tt.in)
				for len(in) > 0 && err == nil && !b.Done() {
					var n int
					n, err = b.Feed(in[:min(piece, len(in))], func(p []byte) { got = append(got, p...) })
					in = in[n:]
				}
				if !errors.Is(err, tt.err) {
					t.Fatalf("Feed in pieces of %d: error %v, want %v", piece, err, tt.err)
				}
				if string(got) != tt.want {
					t.Errorf("in pieces of %d: content %q, want %q", piece, got, tt.want)
				}
				if tt.err == nil && (string(in) != tt.rest || b.Done() == tt.open) {
					t.Errorf("in pieces of %d: rest %q, done %v; want %q, %v", piece, in, b.Done(), tt.rest, !tt.open)
				}
			})
		}
	}
}
