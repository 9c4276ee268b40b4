package ingress

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAborts: clients come and go at random moments, over HTTP/1 and HTTP/2, and
// nothing is left of them (start's cleanup counts).
func TestAborts(t *testing.T) {
	s := &script{pieces: []string{sseHead + chunk(event), chunk(event), chunk(done) + lastOne}, step: make(chan struct{})}
	stop := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() { // the engine's pace
		for {
			select {
			case <-stop:
				return
			case s.step <- struct{}{}:
			}
		}
	})
	g := start(t, []string{engineAt(t, s.serve)})
	h1 := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(h1.CloseIdleConnections)
	h2 := g.http2()
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for range 40 {
				var rt http.RoundTripper = h1
				if rnd.IntN(2) == 0 {
					rt = &h2.Transport
				}
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				aborted := rnd.IntN(3) == 0
				if aborted {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(3000))*time.Microsecond)
				}
				body, err := fetch(ctx, rt, g.url+"/v1/chat/completions")
				cancel()
				if !aborted && (err != nil || body != event+event+done) {
					t.Errorf("%q %v", body, err)
				}
				if err != nil && aborted && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("aborted: %v", err)
				}
			}
		})
	}
	clients.Wait()
	g.idle()
	close(stop)
	ticking.Wait()
	close(s.step)
}

func fetch(ctx context.Context, rt http.RoundTripper, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(streamBody))
	if err != nil {
		return "", err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}
