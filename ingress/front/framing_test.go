package front

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

const testMaxLine = 4096

// follow feeds in to a checker in pieces of at most n bytes. It returns the bytes
// that were let through and the fault.
func follow(in []byte, n int) (through int, fault error) {
	f := framing{maxLine: testMaxLine}
	for through < len(in) {
		p := in[through:min(through+n, len(in))]
		good, err := f.feed(p)
		through += good
		if err != nil {
			return through, err
		}
	}
	return through, nil
}

func TestFraming(t *testing.T) {
	const head = "POST /x HTTP/1.1\r\nHost: h\r\n"
	tests := []struct {
		name, in string
		want     error
	}{
		{"get", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", nil},
		{"two", strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 2), nil},
		{"no_fields", "GET / HTTP/1.0\r\n\r\n", nil},
		{"length", head + "Content-Length: 5\r\n\r\n\n\r\n\x00 GET / HTTP/1.1\r\n\r\n", nil},
		{"length_zero", head + "Content-Length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\n", nil},
		{"length_twice", head + "Content-Length: 5\r\ncontent-length:5 \r\n\r\nhello", nil},
		{"stray_crlf", head + "Content-Length: 1\r\n\r\nx\r\n\r\nGET / HTTP/1.1\r\n\r\n", nil},
		{"chunked", head + "Transfer-Encoding: Chunked\r\n\r\n5;a=b\r\n\n\n\n\n\n\r\n0\r\nX-T: 1\r\n\r\nGET / HTTP/1.1\r\n\r\n", nil},
		{"unfinished", head + "Content-Len", nil},
		{"http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\n\x00\n", nil},
		{"blank_before_colon", head + "Content-Length : 5\r\n\r\nGET / HTTP/1.1\r\n\r\n", nil}, // net/http answers 400
		{"foreign_encoding", head + "Transfer-Encoding: gzip\r\n\r\n\n\n", nil},                // net/http answers 501

		{"bare_lf_request_line", "GET / HTTP/1.1\nHost: h\r\n\r\n", ErrBareLF},
		{"bare_lf_field", "GET / HTTP/1.1\r\nHost: h\n\r\n", ErrBareLF},
		{"bare_lf_end", "GET / HTTP/1.1\r\nHost: h\r\n\n", ErrBareLF},
		{"bare_lf_chunk_size", head + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", ErrBareLF},
		{"bare_lf_after_chunk", head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n", ErrBareLF},
		{"bare_lf_trailer", head + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n", ErrBareLF},
		{"cr_in_field", "GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n", ErrControl},
		{"cr_cr_lf", "GET / HTTP/1.1\r\nA: b\r\r\n\r\n", ErrControl},
		{"cr_and_bare_lf", "GET / HTTP/1.1\r\nA: b\rc\n\r\n", ErrBareLF},
		{"folded", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", ErrFolded},
		{"folded_first", "GET / HTTP/1.1\r\n\tA: b\r\n\r\n", ErrFolded},
		{"folded_trailer", head + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n c\r\n\r\n", ErrFolded},
		{"length_and_encoding", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", ErrTwoFramings},
		{"encoding_and_length", head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", ErrTwoFramings},
		{"two_lengths", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", ErrLength},
		{"length_list", head + "Content-Length: 5, 5\r\n\r\n", ErrLength},
		{"length_empty", head + "Content-Length:\r\n\r\n", ErrLength},
		{"length_signed", head + "Content-Length: +5\r\n\r\n", ErrLength},
		{"length_negative", head + "Content-Length: -5\r\n\r\n", ErrLength},
		{"length_hex", head + "Content-Length: 0x5\r\n\r\n", ErrLength},
		{"length_underscore", head + "Content-Length: 1_0\r\n\r\n", ErrLength},
		{"length_overflow", head + "Content-Length: 9223372036854775808\r\n\r\n", ErrLength},
		{"two_encodings", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", ErrTwoEncodings},
		{"old_encoding", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", ErrOldEncoding},
		{"chunk_no_size", head + "Transfer-Encoding: chunked\r\n\r\n\r\n", ErrChunk},
		{"chunk_no_hex", head + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n", ErrChunk},
		{"chunk_signed", head + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n", ErrChunk},
		{"chunk_overflow", head + "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", ErrChunk},
		{"chunk_wide_overflow", head + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\n", ErrChunk},
		{"chunk_too_long", head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n", ErrChunk},
		{"long_line", "GET /" + strings.Repeat("a", testMaxLine) + " HTTP/1.1\r\n", ErrLineTooLong},
		{"long_line_no_end", "GET /" + strings.Repeat("a", testMaxLine), ErrLineTooLong},
		{"long_chunk_line", head + "Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("a", maxChunkLine) + "\r\n", ErrLineTooLong},
		{"second_request", head + "Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\nHost: h\r\n\r\n", ErrBareLF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 7, 64, 1 << 20} {
				through, err := follow([]byte(tt.in), n)
				if !errors.Is(err, tt.want) {
					t.Errorf("pieces of %d: %v, want %v", n, err, tt.want)
				}
				if tt.want == nil && through != len(tt.in) {
					t.Errorf("pieces of %d: %d bytes of %d", n, through, len(tt.in))
				}
			}
		})
	}
}

// The memory of a connection between requests is small, whatever came before.
func TestFramingKeepsLittle(t *testing.T) {
	f := framing{maxLine: 1 << 20}
	in := "GET /" + strings.Repeat("a", 500<<10) + " HTTP/1.1\r\n\r\n"
	for i := range len(in) / 1000 {
		if _, err := f.feed([]byte(in[i*1000 : (i+1)*1000])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.feed([]byte(in[len(in)/1000*1000:])); err != nil {
		t.Fatal(err)
	}
	if f.place != atRequestLine || cap(f.line) > maxIdleLine {
		t.Errorf("at %d with %d bytes", f.place, cap(f.line))
	}
}

// accepted is what net/http makes of the bytes of a connection: where each of the
// requests ends that it takes whole. It follows its server, not just
// [http.ReadRequest].
func accepted(in []byte) (ends []int) {
	src := bytes.NewReader(in)
	br := bufio.NewReaderSize(src, 4096)
	last := ""
	for {
		if last == http.MethodPost {
			peek, _ := br.Peek(4)
			n := 0
			for n < len(peek) && (peek[n] == '\r' || peek[n] == '\n') {
				n++
			}
			_, _ = br.Discard(n)
		}
		r, err := http.ReadRequest(br)
		if err != nil || r.ProtoMajor != 1 {
			return ends
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return ends
		}
		ends = append(ends, len(in)-src.Len()-br.Buffered())
		if r.Close {
			return ends
		}
		last = r.Method
	}
}

// followed is where requests end in the eyes of the checker.
func followed(in []byte) (ends []int, fault error) {
	f := framing{maxLine: testMaxLine}
	open := false
	for i := range in {
		before := f.place
		if _, err := f.feed(in[i : i+1]); err != nil {
			return ends, err
		}
		if f.place == opaque {
			return ends, nil
		}
		open = open || f.place != atRequestLine
		if open && f.place == atRequestLine && before != atRequestLine {
			ends, open = append(ends, i+1), false
		}
	}
	return ends, nil
}

var seeds = []string{
	"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
	"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.0\r\n\r\n",
	"POST / HTTP/1.1\r\nContent-Length : 5\r\nContent-Length: 0\r\n\r\nhello",
	"POST / HTTP/1.1\r\nContent-Length: 05\r\n\r\nhello",
	"POST / HTTP/1.1\r\nTransfer-Encoding: \tchunked \r\n\r\n000\r\n\r\n",
	"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"\r\n\nGET / HTTP/1.1\r\n\r\n",
	"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nA\x00: b\r\nB: c\x00\r\n\r\n",
}

// FuzzFramingSplits: the verdict does not depend on how the bytes are read.
func FuzzFramingSplits(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		_, whole := follow(in, max(len(in), 1))
		through, split := follow(in, int(n)+1)
		if !errors.Is(split, whole) || !errors.Is(whole, split) {
			t.Fatalf("at once %v, in pieces %v", whole, split)
		}
		if split == nil && through != len(in) {
			t.Fatalf("%d of %d bytes", through, len(in))
		}
	})
}

// FuzzFramingLikeNetHTTP: what the checker lets through and net/http takes, both
// take for the same requests.
func FuzzFramingLikeNetHTTP(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		mine, fault := followed(in)
		// net/http gets to see what was let through, byte by byte.
		good, _ := follow(in, 1)
		theirs := accepted(in[:good])
		for i, end := range theirs {
			if i >= len(mine) || mine[i] != end {
				t.Fatalf("net/http ends requests at %v, the checker at %v (%v)", theirs, mine, fault)
			}
		}
	})
}

func TestConnReadsUpToTheFault(t *testing.T) {
	l := NewListener(&pipeListener{in: "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nokGET / HTTP/1.1\nX: y\r\n\r\n"}, Config{MaxHeadBytes: 1024, WriteStall: 1})
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, r := range []io.Reader{c, iotest.OneByteReader(c)} {
		b, err := io.ReadAll(r)
		if !errors.Is(err, ErrBareLF) {
			t.Fatalf("%v", err)
		}
		if want := "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nok"; r == io.Reader(c) && string(b) != want {
			t.Errorf("%q", b)
		}
	}
}
