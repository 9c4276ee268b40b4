package tokenstream_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"smg/engine"
	"smg/engine/rpc"
	"smg/ingress/tokenreply"
	"smg/ingress/tokenstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// letters are a vocabulary of single letters.
type letters struct{}

func (letters) Text(token uint32) string { return string(rune(token)) }

func (letters) Stream(bool) tokenreply.Detokenizer { return letters{} }

func (letters) Push(tokens ...uint32) string { return string(rune(tokens[0])) }

func (letters) End() string { return "" }

// fake is a stream of what it is given, and then of its error.
type fake struct {
	pieces chan rpc.Piece
	err    error
	once   sync.Once
	closed chan struct{}
}

var errClosed = &engine.Error{Kind: engine.ErrClosed}

// stream says pieces and then err, nil for nothing more until it is closed.
func stream(err error, pieces ...rpc.Piece) *fake {
	f := &fake{pieces: make(chan rpc.Piece, 100), err: err, closed: make(chan struct{})}
	for _, p := range pieces {
		f.pieces <- p
	}
	if err != nil {
		close(f.pieces)
	}
	return f
}

func (f *fake) Next() (rpc.Piece, error) {
	select {
	case <-f.closed:
		return rpc.Piece{}, errClosed
	default:
	}
	select {
	case p, ok := <-f.pieces:
		if !ok {
			return p, f.err
		}
		return p, nil
	case <-f.closed:
		return rpc.Piece{}, errClosed
	}
}

func (f *fake) Buffered() int { return len(f.pieces) }

func (f *fake) Close() { f.once.Do(func() { close(f.closed) }) }

func (f *fake) left() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

func said(text string) rpc.Piece {
	p := rpc.Piece{}
	for _, r := range text {
		p.Tokens = append(p.Tokens, uint32(r))
	}
	return p
}

func end(text string) rpc.Piece {
	p := said(text)
	p.Done, p.Finish = true, "length"
	return p
}

func of(choice int, p rpc.Piece) rpc.Piece {
	p.Index = choice
	return p
}

func answer(t *testing.T, change func(*tokenreply.Request), budget tokenstream.Budget, streams ...tokenstream.Stream) *tokenstream.Answer {
	t.Helper()
	req := &tokenreply.Request{API: tokenreply.Completions, Engine: tokenreply.VLLM, N: 1, Stream: true, Prompts: make([]tokenreply.Prompt, len(streams))}
	if change != nil {
		change(req)
	}
	r, err := tokenreply.New(req, letters{})
	if err != nil {
		t.Fatal(err)
	}
	a := tokenstream.New(r, streams, budget)
	t.Cleanup(a.Close)
	return a
}

// texts are those of a part of a stream, in their order, with its end as it is.
func texts(part []byte) (all []string) {
	for event := range strings.SplitSeq(strings.TrimSuffix(string(part), "\n\n"), "\n\n") {
		if _, text, ok := strings.Cut(event, `"text":"`); ok {
			event, _, _ = strings.Cut(text, `"`)
		}
		all = append(all, event)
	}
	return all
}

// rest reads on up to the end.
func rest(a *tokenstream.Answer) (all string, err error) {
	for {
		part, err := a.Next()
		if err != nil {
			return all, err
		}
		all += string(part)
	}
}

func TestNext(t *testing.T) {
	s := stream(nil, said("a"), said("b"))
	a := answer(t, nil, nil, s)
	next := func(want ...string) {
		t.Helper()
		part, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, texts(part)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if err := a.Await(); err != nil {
		t.Fatal(err)
	}
	next("a", "b") // all that is there
	s.pieces <- said("c")
	next("c")
	s.pieces <- end("")
	next("")
	if a.Ended() || a.Buffered() > 0 || !a.Sent() {
		t.Error("it has ended before its stream")
	}
	s.err = io.EOF
	close(s.pieces)
	next("data: [DONE]")
	if !a.Ended() {
		t.Error("it has not ended")
	}
	if part, err := a.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the end is %q, %v", part, err)
	}
}

func TestFailures(t *testing.T) {
	refused := &engine.Refused{Status: 429, Message: "full"}
	broken := &engine.Error{Kind: engine.ErrBroken}
	tests := []struct {
		name  string
		whole bool
		first []tokenstream.Stream
		await error // nil if something is said before
		text  string
		want  error
	}{
		{name: "refused", first: []tokenstream.Stream{stream(refused)}, await: refused, want: refused},
		{name: "nothing at all", first: []tokenstream.Stream{stream(io.EOF)}, await: engine.ErrBroken, want: engine.ErrBroken},
		{name: "broken", first: []tokenstream.Stream{stream(broken, said("ab"))}, text: "ab", want: broken},
		{name: "broken, with nothing to say", whole: true, first: []tokenstream.Stream{stream(broken, said("ab"))}, want: broken},
		{name: "no end", first: []tokenstream.Stream{stream(io.EOF, said("a"))}, text: "a", want: engine.ErrBroken},
		{name: "broken behind the end", whole: true, first: []tokenstream.Stream{stream(broken, end("a"))}, want: broken},
		{name: "no such choice", first: []tokenstream.Stream{stream(io.EOF, said("a"), of(1, said("b")))}, text: "a", want: engine.ErrProtocol},
		{name: "one of two", whole: true, first: []tokenstream.Stream{stream(io.EOF, end("a")), stream(refused)}, await: errEither, want: refused},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := answer(t, func(r *tokenreply.Request) { r.Stream = !tc.whole }, nil, tc.first...)
			if err := a.Await(); !errors.Is(err, tc.await) && !errors.Is(tc.await, errEither) {
				t.Errorf("awaited: %v, want %v", err, tc.await)
			}
			all, err := rest(a)
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if got := strings.Join(texts([]byte(all)), ""); got != tc.text {
				t.Errorf("%q is out, want %q", got, tc.text)
			}
			if _, again := a.Next(); again == nil || again.Error() != err.Error() || a.Ended() {
				t.Errorf("the error does not stay: %v", again)
			}
		})
	}
}

var errEither = errors.New("an error or none, whoever is first")

func TestStopsBeforeTheEngine(t *testing.T) {
	stops := func(r *tokenreply.Request) { r.Stop = []string{"b"} }
	t.Run("one", func(t *testing.T) {
		s := stream(nil, said("ab"), said("cd")) // and goes on
		all, err := rest(answer(t, stops, nil, s))
		if want := []string{"a", "data: [DONE]"}; !errors.Is(err, io.EOF) || !cmp.Equal(want, texts([]byte(all))) || !s.left() {
			t.Errorf("%q, %v; the stream is closed: %t", all, err, s.left())
		}
	})
	t.Run("one of two choices", func(t *testing.T) {
		s := stream(nil, said("ab"), of(1, end("x")))
		all, err := rest(answer(t, func(r *tokenreply.Request) { stops(r); r.N = 2 }, nil, s))
		if want := []string{"a", "x", "data: [DONE]"}; !errors.Is(err, io.EOF) || !cmp.Equal(want, texts([]byte(all))) || !s.left() {
			t.Errorf("%q, %v; the stream is closed: %t", all, err, s.left())
		}
	})
	t.Run("the engine, too", func(t *testing.T) {
		s := stream(io.EOF, said("ab"), of(1, end("x")), end(""))
		all, err := rest(answer(t, func(r *tokenreply.Request) { stops(r); r.N = 2 }, nil, s))
		if want := []string{"a", "x", "data: [DONE]"}; !errors.Is(err, io.EOF) || !cmp.Equal(want, texts([]byte(all))) {
			t.Errorf("%q, %v", all, err)
		}
	})
	t.Run("one of two prompts", func(t *testing.T) {
		first, second := stream(nil, said("ab"), said("cd")), stream(io.EOF, said("x"), end("y"))
		all, err := rest(answer(t, stops, nil, first, second))
		if !errors.Is(err, io.EOF) || !first.left() || strings.Count(all, "[DONE]") != 1 {
			t.Errorf("%q, %v; the first stream is closed: %t", all, err, first.left())
		}
	})
}

// Many prompts are answered at the same time, and none is left when the answer is closed.
func TestManyPrompts(t *testing.T) {
	var streams []tokenstream.Stream
	for i := range 20 {
		streams = append(streams, stream(io.EOF, said("a"), said(string(rune('b'+i))), end("c")))
	}
	all, err := rest(answer(t, func(r *tokenreply.Request) { r.Stream = false }, nil, streams...))
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for i := range 20 {
		if want := fmt.Sprintf(`{"index":%d,"text":"a%cc"`, i, 'b'+i); !strings.Contains(all, want) {
			t.Errorf("no %s in %s", want, all)
		}
	}

	a := answer(t, nil, nil, stream(nil, said("a")), stream(nil))
	if part, err := a.Next(); err != nil || !strings.Contains(string(part), `"text":"a"`) {
		t.Errorf("%q, %v", part, err)
	}
	a.Close() // with both at work
	a.Close()
}

// budget has a limit.
type budget struct {
	taken atomic.Int64
	limit int64
}

func (b *budget) Reserve(n int64) bool {
	if b.taken.Load()+n > b.limit {
		return false
	}
	b.taken.Add(n)
	return true
}

func (b *budget) Release(n int64) { b.taken.Add(-n) }

func TestBudget(t *testing.T) {
	whole := func(r *tokenreply.Request) { r.Stream = false }
	long := said(strings.Repeat("a", 100_000))
	for _, tc := range []struct {
		name  string
		limit int64
		want  error
	}{{"room", 1 << 20, io.EOF}, {"none", 100_000, tokenstream.ErrNoRoom}} {
		t.Run(tc.name, func(t *testing.T) {
			b := &budget{limit: tc.limit}
			a := answer(t, whole, b, stream(io.EOF, said("a"), long, end("b")))
			if all, err := rest(a); !errors.Is(err, tc.want) || !errors.Is(err, io.EOF) && all != "" {
				t.Errorf("%d bytes, %v", len(all), err)
			}
			if b.taken.Load() == 0 {
				t.Error("it takes nothing")
			}
			a.Close()
			if n := b.taken.Load(); n != 0 {
				t.Errorf("%d bytes are not given back", n)
			}
		})
	}
}
