package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"smg/engine/enginetest"
)

// TestStress sends bodies of all sizes at once, some given up at a random
// moment. The engine sends each body back in chunks of its own choice, and
// sometimes closes instead. No answer may be another request's, and nothing
// may be left.
func TestStress(t *testing.T) {
	const workers, each = 8, 60
	url := enginetest.Serve(t, func(nc net.Conn) { echo(nc, rand.New(rand.NewPCG(1, 2))) })
	client := newClient(t, DefaultConfig())
	target := newTarget(t, client, url)
	var wg sync.WaitGroup
	var whole, given, died atomic.Int64
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			for i := range each {
				body := fmt.Appendf(nil, "%d/%d ", w, i)
				for want := rng.IntN(1 << rng.IntN(18)); len(body) < want; {
					body = fmt.Appendf(body, "%d ", rng.Int())
				}
				ctx, cancel := context.WithCancel(t.Context())
				var stop *time.Timer
				if rng.IntN(3) == 0 {
					stop = time.AfterFunc(time.Duration(rng.IntN(2000))*time.Microsecond, cancel)
				}
				got, err := roundTrip(ctx, client, target, body, rng)
				switch {
				case err == nil && !bytes.Equal(got, body):
					t.Errorf("%d/%d: sent %d bytes, got %d others", w, i, len(body), len(got))
				case err == nil:
					whole.Add(1)
				case errors.Is(err, ErrCanceled) && stop != nil:
					given.Add(1)
				case errors.Is(err, ErrNoAnswer), errors.Is(err, ErrBroken):
					died.Add(1)
				default:
					t.Errorf("%d/%d: %v", w, i, err)
				}
				if stop != nil {
					stop.Stop()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	t.Logf("%d whole, %d given up, %d died, %+v", whole.Load(), given.Load(), died.Load(), client.Stats())
	if whole.Load() == 0 {
		t.Error("no answer came whole")
	}
}

func roundTrip(ctx context.Context, c *Client, target *Target, body []byte, rng *rand.Rand) ([]byte, error) {
	resp, err := c.Send(ctx, target, &Request{Method: "POST", Path: "/", Body: body})
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	var got []byte
	buf := make([]byte, 1+rng.IntN(20000))
	for {
		var p []byte
		if rng.IntN(2) == 0 {
			p, err = resp.Next()
		} else {
			var n int
			n, err = resp.Read(buf)
			p = buf[:n]
		}
		got = append(got, p...)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func echo(nc net.Conn, rng *rand.Rand) {
	buf := make([]byte, 2<<20)
	for {
		req, err := readRequest(nc, buf)
		if err != nil || rng.IntN(50) == 0 {
			return
		}
		_, body, _ := bytes.Cut(req, []byte("\r\n\r\n"))
		out := bytes.NewBufferString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for len(body) > 0 {
			n := min(len(body), 1+rng.IntN(1<<rng.IntN(18)))
			fmt.Fprintf(out, "%x\r\n%s\r\n", n, body[:n])
			body = body[n:]
			if rng.IntN(4) == 0 {
				if _, err := out.WriteTo(nc); err != nil {
					return
				}
			}
		}
		out.WriteString("0\r\n\r\n")
		if _, err := out.WriteTo(nc); err != nil {
			return
		}
	}
}
