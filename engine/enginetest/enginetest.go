// Package enginetest lets tests play an engine byte by byte: answers that no HTTP
// server would give, and connections that end where they should not. It belongs to
// tests.
package enginetest

import (
	"net"
	"sync"
	"testing"
)

// Serve runs handle for every connection to a socket of its own on 127.0.0.1, and
// returns its URL. At the end of the test it closes them all and waits for the
// handlers.
func Serve(tb testing.TB, handle func(net.Conn)) (url string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ServeOn(tb, l, handle)
	return "http://" + l.Addr().String()
}

// ServeOn is Serve on a listener, which it closes.
func ServeOn(tb testing.TB, l net.Listener, handle func(net.Conn)) {
	tb.Helper()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		open []net.Conn
		over bool
	)
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if over {
				nc.Close()
			}
			open = append(open, nc)
			mu.Unlock()
			wg.Go(func() {
				defer nc.Close()
				handle(nc)
			})
		}
	})
	tb.Cleanup(func() {
		l.Close()
		mu.Lock()
		over = true
		for _, nc := range open {
			nc.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}
