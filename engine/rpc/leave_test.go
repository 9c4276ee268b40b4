package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"smg/engine"
	"smg/engine/enginepb/sglangpb"
	"smg/engine/enginepb/vllmpb"
)

// slow is an engine that says a word when it is let, and notes how it was left.
type slow struct {
	fakeSGLang
	came chan struct{} // a call is here
	word chan struct{} // say something
	left chan struct{} // the call was cut
}

func newSlow() *slow {
	s := &slow{came: make(chan struct{}, 1), word: make(chan struct{}), left: make(chan struct{}, 1)}
	s.generate = func(_ *sglangpb.GenerateRequest, out grpc.ServerStreamingServer[sglangpb.GenerateResponse]) error {
		s.came <- struct{}{}
		for total := uint32(1); ; total++ {
			select {
			case <-s.word:
				if err := out.Send(chunkS(0, total, total)); err != nil {
					return err
				}
			case <-out.Context().Done():
				s.left <- struct{}{}
				return out.Context().Err()
			}
		}
	}
	return s
}

func TestLeaving(t *testing.T) {
	tests := []struct {
		name    string
		patient bool
		heard   bool // a piece, before
		cancel  bool // the context, and not Close
	}{
		{name: "closed at once"},
		{name: "closed in the middle", heard: true},
		{name: "context at once", cancel: true},
		{name: "context in the middle", heard: true, cancel: true},
		{name: "patient, in the middle", patient: true, heard: true},
		{name: "patient, context in the middle", patient: true, heard: true, cancel: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := newSlow()
			c := client(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := call(1)
			r.Patient = tt.patient
			s, err := c.Generate(ctx, target(t, c, serve(t, &fake.fakeSGLang).url), engine.RuntimeSGLang, r)
			if err != nil {
				t.Fatal(err)
			}
			within(t, fake.came, "the call comes")
			if tt.heard {
				fake.word <- struct{}{}
				if _, err := s.Next(); err != nil {
					t.Fatal(err)
				}
			}
			want := engine.ErrClosed
			if tt.cancel {
				want = engine.ErrCanceled
				cancel()
			} else {
				s.Close()
			}
			if _, err := s.Next(); !hasKind(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			within(t, fake.left, "the call is cut")
			within(t, fake.did, "the engine is told")
			s.Close()
			c.Close()
			if diff := cmp.Diff([]string{"r-1"}, fake.all()); diff != "" {
				t.Errorf("aborted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatience: a patient call that nobody waits for any more goes on up to its first
// word.
func TestPatience(t *testing.T) {
	open := func(t *testing.T, fake *slow, change ...func(*Config)) (*Client, *Stream, context.CancelFunc) {
		c := client(t, change...)
		// A deadline would cut the call where it must not be cut.
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		r := call(1)
		r.Patient = true
		s, err := c.Generate(ctx, target(t, c, serve(t, &fake.fakeSGLang).url), engine.RuntimeSGLang, r)
		if err != nil {
			t.Fatal(err)
		}
		within(t, fake.came, "the call comes")
		return c, s, cancel
	}
	t.Run("up to the first word", func(t *testing.T) {
		fake := newSlow()
		c, s, cancel := open(t, fake)
		cancel()
		if _, err := s.Next(); !hasKind(err, engine.ErrCanceled) {
			t.Errorf("who has left waits: %v", err)
		}
		s.Close()
		select {
		case <-fake.left:
			t.Fatal("the call was cut before the engine had said anything")
		case fake.word <- struct{}{}:
		}
		within(t, fake.left, "the call is cut")
		within(t, fake.did, "the engine is told")
		c.Close()
		if got := fake.all(); len(got) != 1 {
			t.Errorf("aborted: %q", got)
		}
	})
	t.Run("its limit", func(t *testing.T) {
		fake := newSlow()
		_, s, cancel := open(t, fake, func(c *Config) { c.Patience = 30 * time.Millisecond })
		defer cancel()
		s.Close()
		within(t, fake.left, "the call is cut")
		within(t, fake.did, "the engine is told")
	})
	t.Run("a client that closes", func(t *testing.T) {
		fake := newSlow()
		c, s, cancel := open(t, fake, func(c *Config) { c.AbortTimeout = 30 * time.Millisecond })
		defer cancel()
		s.Close()
		c.Close() // does not wait for the engine's first word
		within(t, fake.left, "the call is cut")
	})
	t.Run("an engine that ends the call itself", func(t *testing.T) {
		proceed, came := make(chan struct{}), make(chan struct{})
		fake := &fakeVLLM{generate: func(_ *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
			close(came)
			<-proceed
			return errNone
		}}
		c := client(t)
		r := call(1)
		r.Patient = true
		s, err := c.Generate(t.Context(), target(t, c, serve(t, fake).url), engine.RuntimeVLLM, r)
		if err != nil {
			t.Fatal(err)
		}
		within(t, came, "the call comes")
		s.Close()
		close(proceed)
		c.Close()
		if got := fake.all(); len(got) != 0 {
			t.Errorf("a call that had ended was aborted: %q", got)
		}
	})
}

func TestDeadline(t *testing.T) {
	deadlines := make(chan bool, 1)
	fake := &fakeVLLM{generate: func(_ *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
		_, ok := s.Context().Deadline()
		deadlines <- ok
		<-s.Context().Done()
		return s.Context().Err()
	}}
	c := client(t)
	tg := target(t, c, serve(t, fake).url)
	for _, patient := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		r := call(1)
		r.Patient = patient
		s, err := c.Generate(ctx, tg, engine.RuntimeVLLM, r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = readAll(s)
		if !errors.Is(err, context.DeadlineExceeded) || !hasKind(err, engine.ErrCanceled) {
			t.Errorf("patient %v: %v, want the deadline", patient, err)
		}
		if got := <-deadlines; got == patient {
			t.Errorf("patient %v: the engine was told of a deadline: %v", patient, got)
		}
		cancel()
	}
}

// TestBuffered: a reader knows whether more has come, and an engine is not read on for
// ever for one who does not.
func TestBuffered(t *testing.T) {
	const all = 1000
	sent := make(chan struct{})
	fake := &fakeVLLM{generate: func(_ *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
		defer close(sent)
		for i := range all {
			if err := s.Send(chunkV(0, uint32(i))); err != nil {
				return err
			}
		}
		return s.Send(endV(0))
	}}
	c := client(t, func(c *Config) { c.Ahead = 4 })
	s, err := c.Generate(t.Context(), target(t, c, serve(t, fake).url), engine.RuntimeVLLM, call(1))
	if err != nil {
		t.Fatal(err)
	}
	within(t, sent, "all is said")
	most := 0
	for i := 0; ; i++ {
		p, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, s.Buffered())
		if p.Done {
			if i != all || p.Completion != all {
				t.Errorf("%d pieces with %d tokens, want %d", i, p.Completion, all)
			}
			break
		}
	}
	if most < 1 || most > 4 {
		t.Errorf("up to %d pieces wait, want some and 4 at most", most)
	}
	s.Close()
}

// TestManyLeave: whatever happens to streams, engines are left with nothing, and the
// client with no goroutine.
func TestManyLeave(t *testing.T) {
	var running atomic.Int64
	fake := &fakeVLLM{generate: func(r *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
		running.Add(1)
		defer running.Add(-1)
		for i := range uint32(20) {
			if err := s.Send(chunkV(0, i)); err != nil {
				return err
			}
			if i == 10 && r.RequestId[len(r.RequestId)-1] == '3' {
				<-s.Context().Done()
			}
		}
		return s.Send(endV(0))
	}}
	c := client(t, func(c *Config) { c.Ahead = 2 })
	tg := target(t, c, serve(t, fake).url)
	var wg sync.WaitGroup
	var left atomic.Int64
	for i := range 200 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r := call(1)
			r.ID, r.Patient = fmt.Sprint("r-", i), rng.IntN(2) == 0
			s, err := c.Generate(ctx, tg, engine.RuntimeVLLM, r)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			most := 15
			if i%10 == 3 {
				most = 11 // all that there is
			}
			for range rng.IntN(most) {
				if _, err := s.Next(); err != nil {
					return
				}
				if rng.IntN(20) == 0 {
					cancel()
				}
			}
			left.Add(1)
		})
	}
	wg.Wait()
	c.Close()
	if n := running.Load(); n != 0 {
		t.Errorf("%d calls still run", n)
	}
	if st := c.Stats(); st.AbortsFailed != 0 || st.Aborts < uint64(left.Load()/2) {
		t.Errorf("%+v after %d streams were left", st, left.Load())
	}
}

// TestOver: an answer whose last piece is there is over, whatever the engine does then,
// and who closes it leaves nobody.
func TestOver(t *testing.T) {
	proceed, ended := make(chan struct{}), make(chan error, 1)
	fake := &fakeVLLM{generate: func(_ *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
		if err := say[vllmpb.GenerateRequest](chunkV(0, 5), endV(0, 5))(nil, s); err != nil {
			return err
		}
		<-proceed
		ended <- s.Context().Err()
		return errNone
	}}
	c := client(t)
	s, err := c.Generate(t.Context(), target(t, c, serve(t, fake).url), engine.RuntimeVLLM, call(1))
	if err != nil {
		t.Fatal(err)
	}
	if all, err := readAll(s); err != nil || len(all) != 2 { // and closes it
		t.Fatalf("%d pieces, %v", len(all), err)
	}
	close(proceed)
	if err := <-ended; err != nil {
		t.Errorf("the engine was left at its end: %v", err)
	}
	c.Close()
	if got := fake.all(); len(got) != 0 {
		t.Errorf("an answer that was over was aborted: %q", got)
	}
}
