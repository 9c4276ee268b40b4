package ingress

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"smg/engine"
)

// maxWhole is how much of an answer that is no stream is gathered before the client gets
// any of it: one that breaks off, or turns out to be an error, has not begun then.
const maxWhole = 1 << 20

// gathered is the begin of an answer, and what of the budget it takes.
type gathered struct {
	buffers *buffers
	bytes   []byte
	held    int64
}

// release gives back what was taken.
func (g *gathered) release() {
	if g.buffers != nil {
		g.buffers.put(g.bytes)
		g.buffers.release(g.held)
		*g = gathered{}
	}
}

// rest reads an answer on behind its first piece, up to its end where that is not too
// far. Where there is no memory left for it, it stops: the answer goes out as it comes.
func (g *gathered) rest(resp source, length int64, piece []byte, b *buffers) (come []byte, err error) {
	if resp.Ended() || len(piece) >= maxWhole || length > maxWhole {
		return piece, nil // the usual case
	}
	g.buffers = b
	for {
		if room := cap(g.bytes) - len(g.bytes); room < len(piece) {
			more := max(length, 2*int64(len(g.bytes)+len(piece)), readStep)
			if !b.reserve(more - g.held) {
				return append(g.bytes, piece...), nil
			}
			larger := append(b.get(more), g.bytes...)
			b.put(g.bytes)
			g.bytes, g.held = larger, more
		}
		g.bytes = append(g.bytes, piece...)
		if resp.Ended() || len(g.bytes) >= maxWhole {
			return g.bytes, nil
		}
		if piece, err = resp.Next(); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil // the next read says so again
			}
			return g.bytes, err
		}
	}
}

// answerFault finds the error that a whole answer with a good status tells of: engines
// that give a request up once they have begun it say so by why they finished. What they
// have said until then is the client's, unless the engine names a status.
func answerFault(answer []byte) (fault, bool) {
	if !bytes.Contains(answer, []byte(`"abort"`)) && !bytes.Contains(answer, []byte(`"error"`)) {
		return fault{}, false // the usual case
	}
	type one struct {
		Text string `json:"text"`
		Meta struct {
			Finish json.RawMessage `json:"finish_reason"`
		} `json:"meta_info"`
		Choices []struct {
			Finish  json.RawMessage `json:"finish_reason"`
			Text    string          `json:"text"`
			Message struct {
				Content   string            `json:"content"`
				Reasoning string            `json:"reasoning_content"`
				Calls     []json.RawMessage `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	var all []one
	if answer = bytes.TrimSpace(answer); len(answer) > 0 && answer[0] == '[' {
		if json.Unmarshal(answer, &all) != nil {
			return fault{}, false
		}
	} else {
		all = make([]one, 1)
		if json.Unmarshal(answer, &all[0]) != nil {
			return fault{}, false
		}
	}
	var first *fault
	judge := func(finish json.RawMessage, said bool) (failed bool) {
		f, ok := finishFault(finish)
		if !ok || f.status == 0 && said {
			return false
		}
		if first == nil {
			f.status = faultStatus(f.status)
			first = &f
		}
		return true
	}
	for i := range all {
		a := &all[i]
		if len(a.Choices) == 0 && !judge(a.Meta.Finish, a.Text != "") {
			return fault{}, false
		}
		for _, c := range a.Choices {
			if m := &c.Message; !judge(c.Finish, c.Text != "" || m.Content != "" || m.Reasoning != "" || len(m.Calls) > 0) {
				return fault{}, false
			}
		}
	}
	if first == nil {
		return fault{}, false
	}
	return *first, true
}

// finishFault is what a finish reason tells of, if that is a failure: a word, or SGLang's
// own form. The status is 0 where none is named.
func finishFault(finish json.RawMessage) (fault, bool) {
	var word string
	if json.Unmarshal(finish, &word) == nil {
		return fault{message: "its engine finished with " + word}, word == "abort" || word == "error"
	}
	var f struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Status  int    `json:"status_code"`
	}
	if json.Unmarshal(finish, &f) != nil || f.Type != "abort" && f.Type != "error" {
		return fault{}, false
	}
	return fault{f.Status, f.Message}, true
}

// hidden is the error of a worker that told of it under a good status.
func (x *exchange) hidden(c *call, f fault) *problem {
	c.failed(f)
	var p *problem
	if c.isLeg() {
		p = legAnswer(c, f.status, f.message)
	} else {
		p = gatewayProblem(f.status, "upstream_error", "worker %s gave the request up with status %d: %s", c.pick.Worker.URL, f.status, clip(f.message))
		p.retryable, p.leg = retried(f.status), c.leg()
	}
	return x.streamed(p)
}

// givesJSON says whether an answer is what engines give where they do not stream.
func givesJSON(resp *engine.Response) bool { return isJSON(resp.Get("Content-Type")) }
