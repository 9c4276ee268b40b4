package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is clients that ask one after another, and what became of it.
type load struct {
	answered atomic.Int64
	degraded atomic.Int64 // answers that say so
	slow     atomic.Int64 // answers that took longer than the limit

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// startLoad has some clients ask until stop. A request that fails fails the test.
func startLoad(t *testing.T, gateway string, clients int, slow time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	client := &http.Client{Transport: transport, Timeout: patience}
	for range clients {
		l.wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				degraded, err := l.ask(client, gateway)
				if err != nil {
					t.Errorf("a request failed after %s: %v", time.Since(began), err)
				}
				l.answered.Add(1)
				if degraded {
					l.degraded.Add(1)
				}
				if time.Since(began) > slow {
					l.slow.Add(1)
				}
				time.Sleep(5 * time.Millisecond) // other processes need the machine as well
			}
		})
	}
	t.Cleanup(func() {
		l.stop()
		transport.CloseIdleConnections()
	})
	return l
}

func (l *load) ask(client *http.Client, gateway string) (degraded bool, err error) {
	resp, err := client.Post(gateway+"/v1/chat/completions", "application/json", strings.NewReader(chat))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, b)
	}
	return resp.Header.Get("X-Smg-Degraded") != "", err
}

// stop lets the requests that are under way end.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

// more waits for n more answers.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	want := l.answered.Load() + n
	await(t, "more answers", func() bool { return l.answered.Load() >= want })
}

// healthy waits until answers are chosen by selectors again, ten in a row.
func (l *load) healthy(t *testing.T) {
	t.Helper()
	await(t, "ten answers that are not degraded", func() bool {
		degraded, answered := l.degraded.Load(), l.answered.Load()
		await(t, "ten answers", func() bool { return l.answered.Load() >= answered+10 })
		return l.degraded.Load() == degraded
	})
}
