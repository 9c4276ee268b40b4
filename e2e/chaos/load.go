package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Clients of each ingress.
const (
	askers  = 3 // ask for short answers, one after another
	leavers = 1 // begin to read a stream and leave
	holders = 2 // read a stream that lasts
)

const (
	keys = 24 // routing keys, which the decode leg pins
	// patience is how long a client waits for a short answer. Whoever stops an engine
	// or an ingress for some seconds makes its requests wait, and no longer.
	patience = 2 * time.Minute
)

// call is a request and what became of it.
type call struct {
	ingress      *member
	key          int
	worker       string // that decoded it, as the answer says
	degraded     bool
	begun        bool // a good head has come
	began, ended time.Time
	err          error
}

// load is the clients of a site.
type load struct {
	site *site
	// turn is held by those who make a short request, or open a stream; the trial takes
	// it whole to have them stop.
	turn sync.RWMutex

	calls, degraded, rerouted, left atomic.Int64
	fresh                           atomic.Int64 // questions that nobody has asked before

	mu      sync.Mutex
	failed  []call
	longest time.Duration  // that a short request took
	texts   map[int]string // the answer to each key's question

	wg   sync.WaitGroup
	stop context.CancelFunc
	http *http.Client
}

// startLoad starts the clients.
func startLoad(ctx context.Context, s *site, seed uint64) *load {
	l := &load{site: s, texts: map[int]string{}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: askers + leavers + holders}}}
	ctx, l.stop = context.WithCancel(ctx)
	for i := range s.ingresses {
		for j := range askers + leavers + holders {
			random := rand.New(rand.NewPCG(seed, uint64(100*i+j)))
			switch {
			case j < askers:
				l.wg.Go(func() { l.asks(ctx, i, random) })
			case j < askers+leavers:
				l.wg.Go(func() { l.leaves(ctx, i, random) })
			default:
				l.wg.Go(func() { l.holds(ctx, i, random) })
			}
		}
	}
	return l
}

// end stops all clients and returns when they are gone.
func (l *load) end() {
	l.stop()
	l.wg.Wait()
	l.http.CloseIdleConnections()
}

// pause waits for the short requests under way and lets no other begin, until resume.
func (l *load) pause()  { l.turn.Lock() }
func (l *load) resume() { l.turn.Unlock() }

// ingress is where a client's next request goes: to its own ingress, or as a load
// balancer would, to another while that one is not ready.
func (l *load) ingress(own int) *member {
	n := len(l.site.ingresses)
	for i := range n {
		if m := l.site.ingresses[(own+i)%n]; m.up.Load() {
			if i > 0 {
				l.rerouted.Add(1)
			}
			return m
		}
	}
	return nil
}

// asks is a client that asks one question after another.
func (l *load) asks(ctx context.Context, own int, random *rand.Rand) {
	for rest(ctx, random, 100*time.Millisecond) {
		l.turn.RLock()
		if m := l.ingress(own); m != nil {
			c := l.ask(ctx, m, random.IntN(keys))
			l.note(c)
			l.took(c.ended.Sub(c.began))
		}
		l.turn.RUnlock()
	}
}

// rest waits for a random time around mean, and says whether to go on.
func rest(ctx context.Context, random *rand.Rand, mean time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(mean/2 + time.Duration(random.Int64N(int64(mean)))):
		return true
	}
}

// ask asks the question of a key, whose answer is always the same.
func (l *load) ask(ctx context.Context, m *member, key int) *call {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	c, resp := l.send(ctx, m, key, `"max_tokens":8`)
	if resp == nil {
		return c
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	c.ended = time.Now()
	if err != nil {
		c.err = cause(ctx, err)
		return c
	}
	var answer struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Choices) != 1 {
		c.err = fmt.Errorf("answer %q: %w", body, err)
		return c
	}
	c.err = l.same(key, answer.Choices[0].Message.Content)
	return c
}

// same checks that a question has the answer that it had before.
func (l *load) same(key int, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.texts[key]; ok && before != text {
		return fmt.Errorf("the answer to key %d is %q, and was %q", key, text, before)
	}
	l.texts[key] = text
	return nil
}

// send sends a request and returns the answer if its head is a good one.
func (l *load) send(ctx context.Context, m *member, key int, more string) (*call, *http.Response) {
	c := &call{ingress: m, key: key, began: time.Now()}
	body := fmt.Sprintf(`{"model":"sim","temperature":0,"ignore_eos":true,"messages":[{"role":"user","content":"Question number %d."}],%s}`, key, more)
	resp, err := func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-SMG-Routing-Key", fmt.Sprintf("key-%d", key))
		return l.http.Do(req)
	}()
	if err != nil {
		c.ended, c.err = time.Now(), cause(ctx, err)
		return c, nil
	}
	c.worker, c.degraded = resp.Header.Get("X-Smg-Routed-Worker-Id"), resp.Header.Get("X-Smg-Degraded") != ""
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
		c.ended, c.err = time.Now(), errors.Join(fmt.Errorf("status %d: %s", resp.StatusCode, text), err, resp.Body.Close())
		return c, nil
	}
	c.begun = true
	return c, resp
}

// cause is why a request failed, in the words of whoever ended it.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && !errors.Is(why, err) {
		return fmt.Errorf("%w (%w)", err, why)
	}
	return err
}

// note counts a call that has ended. One that the run's end has cut is none.
func (l *load) note(c *call) {
	if errors.Is(c.err, context.Canceled) {
		return
	}
	l.calls.Add(1)
	if c.degraded {
		l.degraded.Add(1)
	}
	if c.err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, *c)
}

// took notes how long a short request took.
func (l *load) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, d)
}

// slowest is how long the slowest short request took since the last question.
func (l *load) slowest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.longest
	l.longest = 0
	return d
}

// failures are the calls that have failed until now.
func (l *load) failures() []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.failed)
}

// leaves is a client that loses interest in its streams.
func (l *load) leaves(ctx context.Context, own int, random *rand.Rand) {
	for rest(ctx, random, 200*time.Millisecond) {
		l.turn.RLock()
		if m := l.ingress(own); m != nil {
			// A new question under a new key each time: what is asked again and again would
			// never go to a worker that has come back.
			l.leave(ctx, m, keys+int(l.fresh.Add(1)), time.Duration(random.IntN(400))*time.Millisecond)
		}
		l.turn.RUnlock()
	}
}

var errLeft = errors.New("the client has left")

// leave begins a stream and leaves after a time, at whatever stage the request is.
func (l *load) leave(ctx context.Context, m *member, key int, after time.Duration) {
	ctx, cancel := context.WithTimeoutCause(ctx, after, errLeft)
	defer cancel()
	c, resp := l.send(ctx, m, key, `"stream":true,"max_tokens":1000`)
	if resp != nil {
		c.err = readEvents(resp)
		c.ended = time.Now()
	}
	l.left.Add(1)
	if ctx.Err() == nil {
		l.note(c) // it ended before the client did
	}
}

// holds is a client that reads a stream for as long as the run lasts, and begins a new
// one when it breaks.
func (l *load) holds(ctx context.Context, own int, random *rand.Rand) {
	for rest(ctx, random, 100*time.Millisecond) {
		c, resp := func() (*call, *http.Response) {
			l.turn.RLock()
			defer l.turn.RUnlock()
			m := l.ingress(own)
			if m == nil {
				return nil, nil
			}
			return l.send(ctx, m, random.IntN(keys), `"stream":true,"max_tokens":900000`)
		}()
		if c == nil {
			continue
		}
		if resp != nil {
			c.err = cause(ctx, readEvents(resp))
		}
		c.ended = time.Now()
		l.note(c)
	}
}

// readEvents reads a stream to its end. One that ends without the event that says so,
// or has an event that tells of a failure, has failed.
func readEvents(resp *http.Response) (err error) {
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	events, done := 0, false
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: "))
		switch {
		case !ok:
		case bytes.HasPrefix(data, []byte(`{"error"`)):
			return fmt.Errorf("after %d events: %s", events, data)
		case string(data) == "[DONE]":
			done = true
		default:
			events++
		}
	}
	switch err := sc.Err(); {
	case err != nil:
		return fmt.Errorf("after %d events: %w", events, err)
	case !done:
		return fmt.Errorf("the stream ended after %d events without its end", events)
	}
	return nil
}
