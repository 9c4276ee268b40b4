package rpc

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine"
)

// TestPublishedServicer is run by make test-grpc, against the servicer that is published
// for vLLM, over an engine that counts (test/grpc/servicer.py).
func TestPublishedServicer(t *testing.T) {
	url := os.Getenv("SMG_TEST_VLLM_SERVICER")
	if url == "" {
		t.Skip("SMG_TEST_VLLM_SERVICER names no servicer")
	}
	c := client(t)
	tg := target(t, c, url)
	ask := func(first uint32, stream bool, limit int) ([]Piece, error) {
		r := &Request{ID: "asked", Tokens: []uint32{first, 2, 3}, Sampling: DefaultSampling(), Stream: stream}
		r.Sampling.MaxTokens = &limit
		s, err := c.Generate(t.Context(), tg, engine.RuntimeVLLM, r)
		if err != nil {
			return nil, err
		}
		return readAll(s)
	}
	piece := func(completion int, tokens ...uint32) Piece {
		return Piece{Tokens: tokens, Prompt: 3, Cached: 2, Completion: completion}
	}
	end := func(p Piece) Piece {
		p.Done, p.Finish = true, "length"
		return p
	}
	got, err := ask(1, true, 3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Piece{piece(1, 1000), piece(2, 1001), piece(3, 1002), end(piece(3))}, got); diff != "" {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
	if got, err = ask(1, false, 3); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Piece{end(piece(3, 1000, 1001, 1002))}, got); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
	if _, err = ask(7, true, 3); !isRefused(err, 400) {
		t.Errorf("%v, want a refusal", err)
	}
	p := NewProber(c)
	if runtime, err := p.Find(t.Context(), url, ""); err != nil || runtime != engine.RuntimeVLLM {
		t.Errorf("found %q, %v", runtime, err)
	}
	if l, err := p.Loads(t.Context(), url, "", engine.RuntimeVLLM); err != nil || len(l.Ranks) != 1 {
		t.Errorf("loads %+v, %v", l, err)
	}
	if _, err := c.Events(t.Context(), tg, engine.RuntimeVLLM, "", 0); !errors.Is(err, engine.ErrNoEvents) {
		t.Errorf("events: %v", err)
	}

	r := &Request{ID: "left", Tokens: []uint32{8}, Sampling: DefaultSampling(), Stream: true}
	r.Sampling.MaxTokens = new(10)
	s, err := c.Generate(t.Context(), tg, engine.RuntimeVLLM, r)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	c.Close()
	if st := c.Stats(); st.Aborts != 1 || st.AbortsFailed != 0 {
		t.Errorf("%+v, want one abort", st)
	}
}
