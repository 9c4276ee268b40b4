package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// chat is a short question.
const chat = `{"model":"sim","messages":[{"role":"user","content":"Hello"}],"max_tokens":5}`

// chatStream is a question for an answer of exactly n tokens, streamed.
func chatStream(n int) string {
	return fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"Hello"}],"stream":true,"max_tokens":%d,"ignore_eos":true}`, n)
}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// open sends a request and leaves the answer's body to the caller. header is pairs
// of name and value.
func open(t *testing.T, method, url, body string, header ...string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	// A connection of its own: one that is kept would count as a client of a
	// gateway that drains.
	req.Close = true
	return http.DefaultClient.Do(req)
}

// do sends a request that must be answered.
func do(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	resp, err := open(t, method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// status is a page's.
func status(t *testing.T, url string) int {
	t.Helper()
	return do(t, http.MethodGet, url, "").status
}

// get is the body of a page.
func get(t *testing.T, url string) string {
	t.Helper()
	return do(t, http.MethodGet, url, "").body
}

// askChat asks the gateway and returns who answered.
func askChat(t *testing.T, gateway string, header ...string) (worker string) {
	t.Helper()
	a := do(t, http.MethodPost, gateway+"/v1/chat/completions", chat, header...)
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	return a.header.Get("X-Smg-Routed-Worker-Id")
}

// refused says that nobody listens there any more.
func refused(t *testing.T, url string) bool {
	t.Helper()
	resp, err := open(t, http.MethodGet, url, "")
	if err != nil {
		return true
	}
	if err := resp.Body.Close(); err != nil {
		t.Log(err)
	}
	return false
}

// events is a stream that is being read.
type events struct {
	t    *testing.T
	resp *http.Response
	sc   *bufio.Scanner
}

// openStream asks for a stream and reads its first event.
func openStream(t *testing.T, gateway string, tokens int) *events {
	t.Helper()
	resp, err := open(t, http.MethodPost, gateway+"/v1/chat/completions", chatStream(tokens))
	if err != nil {
		t.Fatal(err)
	}
	return eventsOf(t, resp)
}

// eventsOf reads the first event of a stream.
func eventsOf(t *testing.T, resp *http.Response) *events {
	t.Helper()
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	s := &events{t: t, resp: resp, sc: bufio.NewScanner(resp.Body)}
	if _, ok := s.next(); !ok {
		t.Fatal("the stream has no event")
	}
	return s
}

// next is the data of the next event.
func (s *events) next() (data string, ok bool) {
	for s.sc.Scan() {
		if data, ok := strings.CutPrefix(s.sc.Text(), "data: "); ok {
			return data, true
		}
	}
	return "", false
}

// rest reads the stream to its end: how many pieces of text came, and whether it
// was whole.
func (s *events) rest() (pieces int, whole bool) {
	for {
		data, ok := s.next()
		switch {
		case !ok:
			return pieces, false
		case data == "[DONE]":
			return pieces, true
		case strings.Contains(data, `"content":"`):
			pieces++
		}
	}
}

// await polls until ok, and fails the test if that does not happen.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
