package engine

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// parsed is an answer read from bytes, without a connection.
type parsed struct {
	Status  int
	Fields  []Field
	Body    string
	Persist bool
	Left    int // bytes behind the answer
}

func parse(src io.Reader, headOnly bool) (parsed, error) {
	const limit = 64 << 10
	cn := &conn{rd: reader{src: src, buf: make([]byte, smallBuffer)}}
	resp := &Response{cn: cn}
	f, err := readHead(&cn.rd, limit, resp)
	if err != nil {
		return parsed{}, err
	}
	resp.start(&f, headOnly || resp.Status == 204 || resp.Status == 304)
	var got bytes.Buffer
	for {
		p, err := resp.body.next()
		got.Write(p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return parsed{}, err
		}
	}
	return parsed{
		Status: resp.Status, Fields: resp.Fields, Body: got.String(), Persist: resp.persist, Left: cn.rd.buffered(),
	}, nil
}

// TestParse reads good answers, whole and byte by byte.
func TestParse(t *testing.T) {
	tests := []struct {
		name     string
		answer   string
		headOnly bool
		want     parsed
	}{
		{
			name:   "length",
			answer: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX-A:  b \t\r\nx-a: \r\n\r\nhello",
			want: parsed{
				Status: 200, Body: "hello", Persist: true,
				Fields: []Field{{"content-length", "5"}, {"X-A", "b"}, {"x-a", ""}},
			},
		},
		{
			name:   "same length twice",
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
			want: parsed{
				Status: 200, Body: "ok", Persist: true,
				Fields: []Field{{"Content-Length", "2"}, {"Content-Length", "2"}},
			},
		},
		{
			name:   "chunked with extensions and trailer",
			answer: "HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n00000001 \t; c\r\n!\r\n0\r\nx-sum: 1\r\ny:\r\n\r\n",
			want:   parsed{Status: 200, Body: "hello!", Persist: true, Fields: []Field{{"Transfer-Encoding", "Chunked"}}},
		},
		{
			name:   "until the end",
			answer: "HTTP/1.1 200 Fine\r\n\r\nall of this",
			want:   parsed{Status: 200, Body: "all of this"},
		},
		{
			name:   "HTTP/1.0 with length",
			answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
			want:   parsed{Status: 200, Body: "ok", Fields: []Field{{"Content-Length", "2"}}},
		},
		{
			name:   "HTTP/1.0 that stays",
			answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: x, Keep-Alive\r\n\r\nok",
			want: parsed{
				Status: 200, Body: "ok", Persist: true,
				Fields: []Field{{"Content-Length", "2"}, {"Connection", "x, Keep-Alive"}},
			},
		},
		{
			name:   "HTTP/1.0 until the end that wants to stay",
			answer: "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\nok",
			want:   parsed{Status: 200, Body: "ok", Fields: []Field{{"Connection", "Keep-Alive"}}},
		},
		{
			name:   "close in a list",
			answer: "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: a\r\nConnection: b , CLOSE\r\n\r\n",
			want:   parsed{Status: 500, Fields: []Field{{"Content-Length", "0"}, {"Connection", "a"}, {"Connection", "b , CLOSE"}}},
		},
		{
			name:   "no more requests",
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=5, max=0\r\n\r\n",
			want:   parsed{Status: 200, Fields: []Field{{"Content-Length", "0"}, {"Keep-Alive", "timeout=5, max=0"}}},
		},
		{
			name:   "interim answers",
			answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\na: b\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			want:   parsed{Status: 200, Body: "ok", Persist: true, Fields: []Field{{"Content-Length", "2"}}},
		},
		{
			name:     "answer to HEAD",
			answer:   "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n",
			headOnly: true,
			want:     parsed{Status: 200, Persist: true, Fields: []Field{{"Content-Length", "20"}}},
		},
		{
			name:   "bytes behind",
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!",
			want:   parsed{Status: 200, Body: "ok", Persist: true, Fields: []Field{{"Content-Length", "2"}}, Left: 1},
		},
		{
			name:   "bytes beyond ASCII in a value",
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx: \xc3\xa4\xff\r\n\r\n",
			want:   parsed{Status: 200, Persist: true, Fields: []Field{{"Content-Length", "0"}, {"x", "\xc3\xa4\xff"}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(strings.NewReader(tt.answer), tt.headOnly)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, equateEmpty); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			slow, err := parse(iotest.OneByteReader(strings.NewReader(tt.answer)), tt.headOnly)
			if err != nil {
				t.Fatal("byte by byte: ", err)
			}
			slow.Left = tt.want.Left // not read yet
			if diff := cmp.Diff(tt.want, slow, equateEmpty); diff != "" {
				t.Errorf("byte by byte, -want +got:\n%s", diff)
			}
		})
	}
}

var equateEmpty = cmp.FilterValues(
	func(a, b []Field) bool { return len(a) == 0 && len(b) == 0 },
	cmp.Comparer(func(_, _ []Field) bool { return true }),
)

// TestRefuse reads answers that no strict parser takes.
func TestRefuse(t *testing.T) {
	const (
		ok      = "HTTP/1.1 200 OK\r\n"
		chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	)
	framing := func(text string) error { return framingError(text) }
	tests := []struct {
		name   string
		answer string
		want   error
	}{
		{"garbage", "SSH-2.0-OpenSSH\r\n\r\n", framing("no HTTP/1.x status line")},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", framing("no HTTP/1.x status line")},
		{"HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", framing("no HTTP/1.x status line")},
		{"lower case", "http/1.1 200 OK\r\n\r\n", framing("no HTTP/1.x status line")},
		{"two blanks", "HTTP/1.1  200 OK\r\n\r\n", framing("status is no number")},
		{"short status", "HTTP/1.1 20\r\n\r\n", framing("no HTTP/1.x status line")},
		{"long status", "HTTP/1.1 2000 OK\r\n\r\n", framing("invalid status line")},
		{"signed status", "HTTP/1.1 +20 OK\r\n\r\n", framing("status is no number")},
		{"status 099", "HTTP/1.1 099 OK\r\n\r\n", framing("status below 100")},
		{"NUL in the reason", "HTTP/1.1 200 O\x00K\r\n\r\n", framing("invalid status line")},
		{"blank line first", "\r\n" + ok + "\r\n", framing("no status line")},
		{"bare LF after status", "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", framing("line ends without CR")},
		{"bare LF after field", ok + "Content-Length: 0\n\r\n", framing("line ends without CR")},
		{"bare LF as end", ok + "Content-Length: 0\r\n\n", framing("line ends without CR")},
		{"bare CR", ok + "a: b\rContent-Length: 0\r\n\r\n", framing("control character in a field")},
		{"CR CR LF", ok + "a: b\r\r\n\r\n", framing("control character in a field")},
		{"folded", ok + "a: b\r\n c\r\n\r\n", framing("folded field")},
		{"folded with tab", ok + "a: b\r\n\tc\r\n\r\n", framing("folded field")},
		{"folded at once", ok + " a: b\r\n\r\n", framing("folded field")},
		{"blank before colon", ok + "Content-Length : 0\r\n\r\n", framing("invalid field name")},
		{"no name", ok + ": 0\r\n\r\n", framing("invalid field name")},
		{"no colon", ok + "Content-Length\r\n\r\n", framing("invalid field name")},
		{"NUL in a name", ok + "a\x00: b\r\n\r\n", framing("invalid field name")},
		{"NUL in a value", ok + "a: b\x00c\r\n\r\n", framing("control character in a field")},
		{"length with sign", ok + "Content-Length: +5\r\n\r\nhello", framing("invalid Content-Length")},
		{"negative length", ok + "Content-Length: -5\r\n\r\n", framing("invalid Content-Length")},
		{"empty length", ok + "Content-Length: \r\n\r\n", framing("invalid Content-Length")},
		{"hex length", ok + "Content-Length: 0x5\r\n\r\n", framing("invalid Content-Length")},
		{"length list", ok + "Content-Length: 5, 5\r\n\r\nhello", framing("invalid Content-Length")},
		{"length overflow", ok + "Content-Length: 9223372036854775808\r\n\r\n", framing("invalid Content-Length")},
		{"unknown coding", ok + "Transfer-Encoding: gzip\r\n\r\n", framing("Transfer-Encoding other than chunked")},
		{"two codings", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", framing("Transfer-Encoding other than chunked")},
		{"identity", ok + "Transfer-Encoding: identity\r\n\r\n", framing("Transfer-Encoding other than chunked")},
		{"empty coding", ok + "Transfer-Encoding:\r\n\r\n", framing("Transfer-Encoding other than chunked")},
		{"coding in two fields", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", framing("Transfer-Encoding twice")},
		{"coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", framing("Transfer-Encoding in HTTP/1.0")},
		{"interim with length", "HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nok" + ok + "\r\n", framing("interim answer with a body")},
		{"many fields", ok + strings.Repeat("a:\r\n", maxFields+1) + "\r\n", errHeadTooLarge},
		{"large head", ok + "a: " + strings.Repeat("b", 64<<10) + "\r\n\r\n", errHeadTooLarge},
		{"endless line", strings.Repeat("b", 65<<10), errHeadTooLarge},
		{"large interim heads", strings.Repeat("HTTP/1.1 100 C\r\na: "+strings.Repeat("b", 30<<10)+"\r\n\r\n", 3), errHeadTooLarge},
		{"head broken off", ok + "Content-Len", io.EOF},

		{"no chunk size", chunked + "\r\n\r\n", framing("no chunk size")},
		{"negative chunk size", chunked + "-1\r\n\r\n", framing("no chunk size")},
		{"chunk size with sign", chunked + "+1\r\na\r\n", framing("no chunk size")},
		{"chunk size with 0x", chunked + "0x1\r\na\r\n", framing("invalid chunk size")},
		{"chunk size with blank", chunked + " 1\r\na\r\n", framing("no chunk size")},
		{"chunk size and blanks", chunked + "1 \r\na\r\n", framing("invalid chunk size")},
		{"chunk size no hex", chunked + "1g\r\na\r\n", framing("invalid chunk size")},
		{"chunk size over 63 bits", chunked + "8000000000000000\r\n", framing("chunk size too large")},
		{"chunk size over 64 bits", chunked + "10000000000000001\r\na\r\n", framing("chunk size too large")},
		{"chunk size bare LF", chunked + "1\na\r\n0\r\n\r\n", framing("line ends without CR")},
		{"chunk size LF alone", chunked + "\n", framing("line ends without CR")},
		{"CR in an extension", chunked + "1;a\rb\r\na\r\n", framing("control character in a chunk extension")},
		{"long extension", chunked + "1;" + strings.Repeat("a", maxChunkLine) + "\r\na\r\n", framing("line of the chunked coding too long")},
		{"chunk longer than said", chunked + "1\r\nab\r\n", framing("chunk longer than its size")},
		{"chunk with LF behind", chunked + "1\r\na\n0\r\n\r\n", framing("chunk longer than its size")},
		{"chunk with CR x behind", chunked + "1\r\na\rx", framing("chunk longer than its size")},
		{"trailer without name", chunked + "0\r\nabc\r\n\r\n", framing("invalid field name")},
		{"trailer folded", chunked + "0\r\na: b\r\n c\r\n\r\n", framing("folded field")},
		{"trailer bare LF", chunked + "0\r\n\n", framing("line ends without CR")},
		{"endless trailer", chunked + "0\r\n" + strings.Repeat("a: b\r\n", maxTrailer/6+1) + "\r\n", framing("trailer too large")},
		{"chunk broken off", chunked + "5\r\nhel", io.ErrUnexpectedEOF},
		{"between chunks", chunked + "5\r\nhello\r\n", io.ErrUnexpectedEOF},
		{"trailer broken off", chunked + "5\r\nhello\r\n0\r\n", io.ErrUnexpectedEOF},
		{"length broken off", ok + "Content-Length: 5\r\n\r\nhell", io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{
				strings.NewReader(tt.answer),
				iotest.OneByteReader(strings.NewReader(tt.answer)),
				iotest.DataErrReader(strings.NewReader(tt.answer)),
			} {
				if got, err := parse(src, false); !errors.Is(err, tt.want) {
					t.Errorf("%T: got %+v, %v, want %v", src, got, err, tt.want)
				}
			}
		})
	}
}

// TestKeepAliveHint: the pool stays a second under what the engine says.
func TestKeepAliveHint(t *testing.T) {
	tests := []struct {
		name, value string
		want        string
	}{
		{"seconds", "timeout=5, max=100", "4s"},
		{"one second", "timeout=1", "500ms"},
		{"two seconds", "max=3,timeout=2", "1s"},
		{"none left", "timeout=0", "0s"},
		{"no request left", "max=0, timeout=5", "0s"},
		{"long", "timeout=99999999999", "23h59m59s"},
		{"no number", "timeout=abc", "-1ns"},
		{"nothing", "", "-1ns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := framing{hint: -1}
			f.noteKeepAlive(tt.value)
			if got := f.hint.String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestReadSizes reads one body through buffers of all sizes.
func TestReadSizes(t *testing.T) {
	var want, coded strings.Builder
	for i := range 300 {
		s := strings.Repeat(string(rune('a'+i%26)), 1+i*7%900)
		want.WriteString(s)
		coded.WriteString(chunk(s))
	}
	answers := map[string]string{
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + coded.String() + "0\r\n\r\n",
		"until":   "HTTP/1.1 200 OK\r\n\r\n" + want.String(),
		"length":  answerHead("text/plain", want.Len()) + want.String(),
	}
	for name, answer := range answers {
		for _, size := range []int{1, 7, 100, 4 << 10, 64 << 10} {
			cn := &conn{rd: reader{src: strings.NewReader(answer), buf: make([]byte, smallBuffer)}}
			resp := &Response{cn: cn}
			f, err := readHead(&cn.rd, 4<<10, resp)
			if err != nil {
				t.Fatal(err)
			}
			resp.start(&f, false)
			var got bytes.Buffer
			if _, err := io.CopyBuffer(&got, struct{ io.Reader }{resp}, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() || !resp.Ended() {
				t.Errorf("%s, %d bytes at a time: another body", name, size)
			}
		}
	}
}
