package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// With memory the ids are the same, the second time too.
func TestCacheChangesNothing(t *testing.T) {
	texts := goldenTexts(t)
	for _, name := range []string{"gpt2", "mistral", "xlmr", "bert", "added", "whole_unigram"} {
		k := goldenKind(t, name)
		c, err := NewCache(k.tokenizer, 200<<10)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for i, text := range texts {
				got, err := c.Encode(text, false)
				if (err != nil) != (k.IDs[i] == nil) || err == nil && !slices.Equal(got, k.IDs[i]) {
					t.Errorf("%s: text %d %.60q: %.200v (%v), want %.200v", name, i, text, got, err, k.IDs[i])
				}
			}
		}
		if s := c.Stats(); s.Bytes > 200<<10 || s.Misses == 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A conversation that grows by a message is encoded from that message on.
func TestCacheOfAConversation(t *testing.T) {
	k := goldenKind(t, "gpt2")
	c, err := NewCache(k.tokenizer, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	prompt := ""
	for turn := range 20 {
		prompt += fmt.Sprintf("<|im_start|>user\n%s %d<|im_end|>", strings.Repeat("some words of a message ", 40), turn)
		before := c.Stats()
		got, err := c.Encode(prompt, true)
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := k.tokenizer.Encode(prompt, true); !slices.Equal(got, want) {
			t.Fatalf("turn %d: other ids with memory", turn)
		}
		after := c.Stats()
		if after.Misses-before.Misses != 1 || after.Hits-before.Hits != uint64(turn) {
			t.Errorf("turn %d: %d parts were encoded and %d remembered, want 1 and %d", turn, after.Misses-before.Misses, after.Hits-before.Hits, turn)
		}
	}
}

func TestCacheBound(t *testing.T) {
	k := goldenKind(t, "gpt2")
	if _, err := NewCache(k.tokenizer, 0); err == nil {
		t.Error("a cache without room is made")
	}
	c, err := NewCache(k.tokenizer, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	part := func(i int) string { return fmt.Sprintf("%05d", i) + strings.Repeat("x", 500) }
	for i := range 100 {
		if _, err := c.Encode(part(i), false); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Encode(part(0), false); err != nil { // stays, it is in use
			t.Fatal(err)
		}
		if s := c.Stats(); s.Bytes > 10_000 {
			t.Fatalf("%d bytes after %d parts", s.Bytes, i)
		}
	}
	s := c.Stats()
	if s.Hits < 99 || s.Evicted == 0 || s.Parts == 0 {
		t.Errorf("%+v", s)
	}
	if _, err := c.Encode(strings.Repeat("y", 20_000), false); err != nil {
		t.Fatal(err)
	}
	if got := c.Stats(); got.Oversized != 1 || got.Parts != s.Parts {
		t.Errorf("a part too large: %+v, before %+v", got, s)
	}
}

func TestConcurrentUse(t *testing.T) {
	k := goldenKind(t, "llama3")
	texts := goldenTexts(t)
	c, err := NewCache(k.tokenizer, 100<<10)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range texts {
				i = (i*7 + w*31) % len(texts)
				got, err := c.Encode(texts[i], false)
				if err != nil || !slices.Equal(got, k.IDs[i]) {
					t.Errorf("text %d differs beside others (%v)", i, err)
				}
				_ = k.tokenizer.Decode(got, true)
			}
		})
	}
	wg.Wait()
}
