package tokenreply_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
)

// FuzzHostile has engines say what makes no sense: the answer is JSON all the same.
func FuzzHostile(f *testing.F) {
	f.Add([]byte{1, 1, 0, 0, 5, 3, 10, 20, 30, 1, 2, 3}, "stop", "\xff\"", "a")
	f.Add([]byte{2, 2, 255, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, "", "", "é")
	f.Add([]byte{3, 1, 127, 0, 200, 100, 50, 25, 12, 6, 3, 1}, "abort", "x", "")
	f.Fuzz(func(t *testing.T, data []byte, finish, text, stop string) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b)
		}
		v, ids := words("a", "\xc3", "\xa9", text, "\x00")
		odd := []float32{0, -1, 1, nan(), float32(math.Inf(1)), float32(math.Inf(-1)), -1e-30, math.MaxFloat32, -math.MaxFloat32}
		tokens := func() (list []uint32) {
			for range next() % 5 {
				list = append(list, ids[next()%len(ids)]+uint32(next()%2)*1000)
			}
			return list
		}
		tops := func() (all [][]rpc.TokenLogprob) {
			for range next() % 4 {
				var place []rpc.TokenLogprob
				for _, token := range tokens() {
					place = append(place, rpc.TokenLogprob{Token: token, Value: odd[next()%len(odd)]})
				}
				all = append(all, place)
			}
			return all
		}
		logprobs := func() *rpc.Logprobs {
			if next()%3 == 0 {
				return nil
			}
			l := &rpc.Logprobs{Tokens: tokens(), Top: tops(), Asked: tops()}
			for range next() % 5 {
				l.Values = append(l.Values, odd[next()%len(odd)])
			}
			return l
		}
		req := chat()
		req.API, req.Engine = tokenreply.API(1+next()%3), tokenreply.Engine(1+next()%2)
		bits := next()
		req.Stream, req.Echo, req.KeepStop = bits&1 > 0, bits&2 > 0, bits&4 > 0
		req.SkipSpecial, req.Incremental, req.IncludeUsage, req.ContinuousUsage = bits&8 > 0, bits&16 > 0, bits&32 > 0, bits&32 > 0
		req.Model, req.ID, req.N, req.Batch = text, finish, 1+next()%2, bits&64 > 0
		if stop != "" {
			req.Stop = []string{stop}
		}
		req.Prompts[0].Text = text
		req.Prompts[0].Logprobs = rpc.LogprobsWanted{
			Output: bits&128 > 0, Prompt: next()%2 > 0, From: next() - 10, Top: next() % 3, Tokens: tokens(),
		}
		req.Prompts[0].TokenText = next()%2 > 0
		r := begin(t, req, v)
		var all []byte
		for range 1 + next()%6 {
			p := &rpc.Piece{Index: next() % req.N, Tokens: tokens(), Prompt: next() - 9, Cached: next() - 9, Output: logprobs(), Input: logprobs()}
			if p.Done = next()%2 > 0; p.Done {
				p.Finish, p.StopText = finish, text
				if next()%2 > 0 {
					p.StopToken = new(uint32(next()))
				}
			}
			var err error
			if all, err = r.Append(all, 0, p); err != nil {
				t.Fatal(err)
			}
		}
		for i := range req.N {
			var err error
			if all, err = r.Append(all, 0, &rpc.Piece{Index: i, Done: true}); err != nil {
				t.Fatal(err)
			}
		}
		all = r.AppendEnd(all)
		if !r.Done() || !utf8.Valid(all) {
			t.Fatalf("done %t: %q", r.Done(), all)
		}
		if req.Stream && !strings.HasSuffix(string(all), "data: [DONE]\n\n") {
			t.Fatalf("the end is missing: %q", all)
		}
		for _, doc := range events(string(all)) {
			if doc != "[DONE]" && !json.Valid([]byte(doc)) {
				t.Fatalf("no JSON: %s", doc)
			}
		}
	})
}
