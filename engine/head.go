package engine

import (
	"bytes"
	"math"
	"net/http"
	"strings"
	"time"
)

const (
	// maxInterim bounds the 1xx answers before the real one.
	maxInterim = 8
	// maxFields bounds the fields of one head.
	maxFields = 512
)

// framing is what a head says about the bytes behind it.
type framing struct {
	minor     int   // of HTTP/1.minor
	length    int64 // -1 without Content-Length
	chunked   bool
	close     bool
	keepAlive bool
	hint      time.Duration // for how long the engine keeps the connection; -1 for no word
}

// persists says whether the connection can carry another request.
func (f *framing) persists() bool {
	return !f.close && f.hint != 0 && (f.minor == 1 || f.keepAlive)
}

// readHead reads heads up to the final one into resp, limit bytes in all.
func readHead(rd *reader, limit int, resp *Response) (framing, error) {
	for range maxInterim + 1 {
		n, err := headLen(rd, limit)
		if err != nil {
			return framing{}, err
		}
		// One string for the whole head: the fields are parts of it.
		head := string(rd.buf[rd.r : rd.r+n])
		rd.r += n
		limit -= n
		f, err := parseHead(head, resp)
		switch {
		case err != nil:
			return f, err
		case resp.Status >= 200:
			return f, nil
		case resp.Status == http.StatusSwitchingProtocols:
			return f, framingError("101 without being asked")
		case f.chunked || f.length >= 0:
			return f, framingError("interim answer with a body")
		}
	}
	return framing{}, framingError("too many interim answers")
}

// headLen waits for the blank line and returns the length up to its end.
// Every line must end with CR LF: whoever takes a bare LF for an end sees
// other heads than whoever does not.
func headLen(rd *reader, limit int) (int, error) {
	var line, at int // relative to rd.r: start of the line, what was looked at
	for {
		buf := rd.buf[rd.r:rd.w]
		for {
			i := bytes.IndexByte(buf[at:], '\n')
			if i < 0 {
				at = len(buf)
				break
			}
			end := at + i
			if end == line || buf[end-1] != '\r' {
				return 0, framingError("line ends without CR")
			}
			at = end + 1
			if end-1 == line {
				if line == 0 {
					return 0, framingError("no status line")
				}
				if at > limit {
					return 0, errHeadTooLarge
				}
				return at, nil
			}
			line = at
		}
		if len(buf) >= limit {
			return 0, errHeadTooLarge
		}
		if err := rd.fill(); err != nil {
			return 0, err
		}
	}
}

// cutLine takes one line, whose end headLen has checked.
func cutLine(s string) (line, rest string) {
	i := strings.IndexByte(s, '\n')
	return s[:i-1], s[i+1:]
}

func parseHead(s string, resp *Response) (framing, error) {
	f := framing{length: -1, hint: -1}
	line, s := cutLine(s)
	if err := parseStatus(line, resp, &f); err != nil {
		return f, err
	}
	resp.Fields = resp.few[:0]
	for {
		if line, s = cutLine(s); line == "" {
			break
		}
		field, err := parseField(line)
		if err != nil {
			return f, err
		}
		if len(resp.Fields) == maxFields {
			return f, errHeadTooLarge
		}
		resp.Fields = append(resp.Fields, field)
		if err := f.note(field); err != nil {
			return f, err
		}
	}
	if f.chunked && f.length >= 0 {
		return f, framingError("Content-Length with Transfer-Encoding")
	}
	if f.chunked && f.minor == 0 {
		return f, framingError("Transfer-Encoding in HTTP/1.0")
	}
	return f, nil
}

// parseStatus reads "HTTP/1.1 200 OK"; the reason may be missing.
func parseStatus(line string, resp *Response, f *framing) error {
	const prefix = "HTTP/1.x 200"
	if len(line) < len(prefix) || line[:7] != prefix[:7] || line[8] != ' ' {
		return framingError("no HTTP/1.x status line")
	}
	switch line[7] {
	case '0', '1':
		f.minor = int(line[7] - '0')
	default:
		return framingError("no HTTP/1.x status line")
	}
	status := 0
	for _, c := range []byte(line[9:12]) {
		if c < '0' || c > '9' {
			return framingError("status is no number")
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 {
		return framingError("status below 100")
	}
	reason := line[12:]
	if reason != "" && reason[0] != ' ' || !validValue(reason) {
		return framingError("invalid status line")
	}
	resp.Status, resp.Reason = status, trim(reason)
	return nil
}

func parseField(line string) (Field, error) {
	if line[0] == ' ' || line[0] == '\t' {
		return Field{}, framingError("folded field")
	}
	colon := strings.IndexByte(line, ':')
	if colon < 0 || !validToken(line[:colon]) {
		return Field{}, framingError("invalid field name")
	}
	field := Field{Name: line[:colon], Value: trim(line[colon+1:])}
	if !validValue(field.Value) {
		return Field{}, framingError("control character in a field")
	}
	return field, nil
}

// note keeps what a field says about framing and connection.
func (f *framing) note(field Field) error {
	switch len(field.Name) {
	case len("connection"):
		if equalFold(field.Name, "connection") {
			f.noteConnection(field.Value)
		} else if equalFold(field.Name, "keep-alive") {
			f.noteKeepAlive(field.Value)
		}
	case len("content-length"):
		if equalFold(field.Name, "content-length") {
			return f.noteLength(field.Value)
		}
	case len("transfer-encoding"):
		if equalFold(field.Name, "transfer-encoding") {
			if f.chunked {
				return framingError("Transfer-Encoding twice")
			}
			if !equalFold(field.Value, "chunked") {
				return framingError("Transfer-Encoding other than chunked")
			}
			f.chunked = true
		}
	}
	return nil
}

func (f *framing) noteConnection(list string) {
	for list != "" {
		var option string
		option, list = nextElement(list)
		switch {
		case equalFold(option, "close"):
			f.close = true
		case equalFold(option, "keep-alive"):
			f.keepAlive = true
		}
	}
}

// noteKeepAlive reads "timeout=5, max=100". It leaves the engine a second:
// a request must not meet it just as it closes.
func (f *framing) noteKeepAlive(list string) {
	for list != "" {
		var param string
		param, list = nextElement(list)
		name, value, _ := strings.Cut(param, "=")
		n, ok := parseDecimal(value)
		switch {
		case !ok:
		case equalFold(name, "max") && n == 0:
			f.hint = 0
		case equalFold(name, "timeout") && f.hint != 0:
			const longest = 24 * 60 * 60
			seconds := time.Duration(min(n, longest)) * time.Second
			f.hint = max(seconds-time.Second, seconds/2)
		}
	}
}

// noteLength takes the same value twice, as net/http does, but no list.
func (f *framing) noteLength(value string) error {
	n, ok := parseDecimal(value)
	if !ok {
		return framingError("invalid Content-Length")
	}
	if f.length >= 0 && f.length != n {
		return framingError("two different Content-Lengths")
	}
	f.length = n
	return nil
}

// parseDecimal takes digits alone: no sign, no blank.
func parseDecimal(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' || n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
