package http1

import (
	"bytes"
	"errors"
	"strconv"
)

// Faults of messages.
var (
	ErrHead  = errors.New("the head of the message is malformed")
	ErrChunk = errors.New("the chunked body is malformed")
)

// Head is what a message's head says about its size.
type Head struct {
	Size    int   // of the head with the empty line
	Status  int   // of an answer; 0 in a request
	Length  int64 // of the body; -1 if it is not said
	Chunked bool
	Close   bool // the connection carries nothing more after this message
}

var (
	headEnd = []byte("\r\n\r\n")
	version = []byte("HTTP/1.1 ")
)

// ParseHead reads the head that p begins with. whole is false if p does not hold
// all of it yet.
func ParseHead(p []byte) (h Head, whole bool, err error) {
	end := bytes.Index(p, headEnd)
	if end < 0 {
		return Head{}, false, nil
	}
	h = Head{Size: end + len(headEnd), Length: -1}
	first, rest, _ := bytes.Cut(p[:end], headEnd[:2])
	if after, answer := bytes.CutPrefix(first, version); answer {
		if len(after) < 3 {
			return Head{}, true, ErrHead
		}
		if h.Status, err = strconv.Atoi(string(after[:3])); err != nil {
			return Head{}, true, ErrHead
		}
	}
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, headEnd[:2])
		if err := h.field(line); err != nil {
			return Head{}, true, err
		}
	}
	return h, true, nil
}

// field takes notice of the three fields that matter, told apart by their length
// first.
func (h *Head) field(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	switch colon {
	case len("Content-Length"):
		if bytes.EqualFold(line[:colon], []byte("Content-Length")) {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(line[colon+1:])), 10, 64)
			if err != nil || n < 0 {
				return ErrHead
			}
			h.Length = n
		}
	case len("Transfer-Encoding"):
		if bytes.EqualFold(line[:colon], []byte("Transfer-Encoding")) {
			h.Chunked = bytes.EqualFold(bytes.TrimSpace(line[colon+1:]), []byte("chunked"))
		}
	case len("Connection"):
		if bytes.EqualFold(line[:colon], []byte("Connection")) {
			h.Close = bytes.EqualFold(bytes.TrimSpace(line[colon+1:]), []byte("close"))
		}
	}
	return nil
}
