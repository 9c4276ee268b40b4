package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// chatAnswer is what is read of an answer, or of an event of one.
type chatAnswer struct {
	Choices []struct {
		Message struct{ Content string }
		Delta   struct{ Content string }
	}
	Error json.RawMessage
}

// wholeText is the text of an answer to a chat.
func wholeText(r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	var a chatAnswer
	if err := json.Unmarshal(b, &a); err != nil || len(a.Choices) != 1 {
		return "", errors.Join(fmt.Errorf("answer %q", b), err)
	}
	return a.Choices[0].Message.Content, nil
}

// readText is the text of a stream that answers a chat, as far as it has come. Of a
// stream with an error the error is a *toldError.
func readText(r io.Reader) (string, error) {
	var text []byte
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if string(data) == "[DONE]" {
			return string(text), nil
		}
		var a chatAnswer
		if err := json.Unmarshal(data, &a); err != nil {
			return string(text), fmt.Errorf("event %q: %w", data, err)
		}
		if a.Error != nil {
			return string(text), &toldError{"", string(data)}
		}
		for _, c := range a.Choices {
			text = append(text, c.Delta.Content...)
		}
	}
	return string(text), errors.Join(errors.New("the stream has no end"), sc.Err())
}
