package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// outcome is how a request ended, as its client sees it.
type outcome string

// The outcomes that a request can have. Any other one is an error's.
const (
	whole  outcome = "whole"
	failed outcome = "failed, with a status"
	broken outcome = "broken off, to be seen"
	left   outcome = "left by the client"
)

// fault is what a word in a request's text has its engine do, see rules.
type fault struct {
	word  string
	ends  []outcome
	share int // of 100 requests
}

var faults = []fault{
	{"please-500", []outcome{failed}, 2},
	{"please-drop", []outcome{failed}, 2},
	{"please-cut", []outcome{broken, failed}, 3},
	{"please-fail", []outcome{broken, failed}, 2},
	{"leaving", []outcome{left, whole}, 5},
}

// load asks at a steady rate.
type load struct {
	o      *options
	url    string
	client *http.Client
	right  map[string]string // text of the answers, by path

	mu     sync.Mutex
	counts map[string]int // by word and outcome
	wrong  []string
	slow   time.Duration
}

func newLoad(o *options, url string) *load {
	return &load{
		o: o, url: url, right: map[string]string{}, counts: map[string]int{},
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 200}},
	}
}

// request is one of the load.
type request struct {
	path, word string
	stream     bool
}

func (r request) body() string {
	const end = `,"temperature":0,"max_tokens":20,"stream":%t}`
	// The word is in a field that says nothing to a model.
	head := fmt.Sprintf(`{"model":"sim","user":%q,`, r.word)
	if r.path == "/v1/completions" {
		return head + fmt.Sprintf(`"prompt":"Once upon a time"`+end, r.stream)
	}
	return head + fmt.Sprintf(`"messages":[{"role":"user","content":"Where is Käse made?"}]`+end, r.stream)
}

var paths = []string{"/v1/chat/completions", "/v1/completions"}

// learn asks for the right answers.
func (l *load) learn(ctx context.Context) error {
	for _, path := range paths {
		text, got := l.ask(ctx, request{path: path})
		if got != whole || text == "" {
			return fmt.Errorf("the first answer of %s was %s: %q", path, got, text)
		}
		l.right[path] = text
	}
	return nil
}

// run asks until ctx ends, and waits for the answers.
func (l *load) run(ctx context.Context) {
	draw := rand.New(rand.NewPCG(l.o.seed, 0))
	tick := time.NewTicker(time.Second / time.Duration(l.o.rate))
	defer tick.Stop()
	var all sync.WaitGroup
	defer func() {
		all.Wait()
		l.client.CloseIdleConnections()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := request{path: paths[draw.IntN(len(paths))], stream: draw.IntN(2) == 0}
		ends, at := []outcome{whole}, draw.IntN(100)
		for _, f := range faults {
			if at -= f.share; at < 0 {
				r.word, ends = f.word, f.ends
				break
			}
		}
		// Not of ctx: what has begun may end.
		all.Go(func() { l.one(context.WithoutCancel(ctx), r, ends) })
	}
}

// one asks, and compares what comes with what should.
func (l *load) one(ctx context.Context, r request, ends []outcome) {
	began := time.Now()
	text, got := l.ask(ctx, r)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = max(l.slow, took)
	l.counts[fmt.Sprintf("%-12s %s", r.word, got)]++
	if !slices.Contains(ends, got) || got == whole && text != l.right[r.path] {
		if len(l.wrong) < 20 {
			l.wrong = append(l.wrong, fmt.Sprintf("%s stream=%t %q: %s: %.300q", r.path, r.stream, r.word, got, text))
		}
		l.counts["WRONG"]++
	}
}

// ask returns the text of an answer, or what came instead, and how it ended.
func (l *load) ask(ctx context.Context, r request) (text string, got outcome) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+r.path, strings.NewReader(r.body()))
	if err != nil {
		return err.Error(), outcome("not sent")
	}
	req.Header.Set("Content-Type", "application/json")
	if r.word == "leaving" {
		defer time.AfterFunc(time.Duration(len(r.path)%7)*time.Millisecond, leave).Stop()
	}
	resp, err := l.client.Do(req)
	var raw []byte
	if err == nil {
		raw, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "", left
	case err != nil && resp == nil && r.word != "please-cut":
		return err.Error(), outcome("no answer")
	case err != nil:
		return err.Error(), broken
	case resp.StatusCode != http.StatusOK:
		return string(raw), failed
	case bytes.Contains(raw, []byte(`"error":{`)):
		return string(raw), broken
	case r.stream && !bytes.HasSuffix(raw, []byte("data: [DONE]\n\n")):
		return string(raw), outcome("not whole, and not to be seen as such")
	}
	return textOf(raw, r.stream), whole
}

var eventData = regexp.MustCompile(`(?m)^data: (\{.*)$`)

// textOf is the text of an answer, whole or of its events.
func textOf(raw []byte, stream bool) string {
	pieces := [][]byte{raw}
	if stream {
		pieces = nil
		for _, m := range eventData.FindAllSubmatch(raw, -1) {
			pieces = append(pieces, m[1])
		}
	}
	var text strings.Builder
	for _, p := range pieces {
		var a struct {
			Choices []struct {
				Text           string
				Message, Delta struct{ Content string }
			}
		}
		if json.Unmarshal(p, &a) != nil {
			return "no JSON: " + string(p)
		}
		for _, c := range a.Choices {
			text.WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
	}
	return text.String()
}

// fault is what was wrong, nil if nothing was.
func (l *load) fault() error {
	if len(l.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d requests ended otherwise than they had to:\n%s", l.counts["WRONG"], strings.Join(l.wrong, "\n"))
}
