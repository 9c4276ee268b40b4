package ingress

import (
	"context"
	"net/http"
	"testing"
)

// silent is a writer that keeps nothing.
type silent struct{ h http.Header }

func (w *silent) Header() http.Header         { return w.h }
func (w *silent) Write(b []byte) (int, error) { return len(b), nil }
func (w *silent) WriteHeader(int)             {}
func (w *silent) FlushError() error           { return nil }

// BenchmarkDoor measures what every request passes, around a handler that does next to
// nothing.
func BenchmarkDoor(b *testing.B) {
	s := start(b, nil).Server
	w := &silent{http.Header{}}
	for _, path := range []string{"/liveness", "/nothing"} {
		b.Run(path[1:], func(b *testing.B) {
			r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.ServeHTTP(w, r)
			}
		})
	}
}
