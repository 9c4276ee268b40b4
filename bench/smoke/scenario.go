package main

import (
	"fmt"
	"strings"
	"time"
)

// scenario is one kind of load, the same for all subjects.
type scenario struct {
	name        string
	body        string // of the request
	tokens      int    // of the answer
	connections int
	rate        float64 // a second; 0 is as fast as answers come
	length      time.Duration
	policy      string // of the gateways
	subjects    []kind
	goals       []goal // that are about it
}

const (
	path = "/v1/chat/completions"
	// model is what the simulated engine calls its model.
	model = "sim"
	// smallBody is the size of a small request's body in bytes.
	smallBody = 310
	// largePrompt is the length of a large prompt in characters.
	largePrompt = 32 << 10
	smallAnswer = 16
	events      = 100
	// eventsPerWrite keeps the engine cheaper than the relay: with a write for each
	// event it would not be.
	eventsPerWrite = 4
	// pairPolicy is that of both legs. With one engine in each there is nothing to
	// choose: what is measured is asking.
	pairPolicy = "round_robin"
)

func scenarios(o *options) []scenario {
	small := chat(smallBody-len(chat(0, false)), false)
	all := []scenario{
		{name: "small chat", body: small, tokens: smallAnswer, connections: 64, rate: o.rate, length: o.length, goals: []goal{g1}},
		{name: "small chat, saturated", body: small, tokens: smallAnswer, connections: 64, length: o.length},
		{name: "32 KB prompt", body: chat(largePrompt, false), tokens: smallAnswer, connections: 16, rate: o.rateLarge, length: o.length},
		{name: "100-chunk SSE", body: chat(smallBody-len(chat(0, true)), true), tokens: events, connections: 16, rate: o.rateSSE, length: o.length},
	}
	for i := range all {
		all[i].policy, all[i].subjects = "passthrough", forRegular(o)
	}
	all = append(all, scenario{
		name: "small chat, prefill/decode", body: small, tokens: smallAnswer, connections: 64, rate: o.ratePair, length: 2 * o.length,
		policy: pairPolicy, subjects: forPair(o), goals: []goal{g9, g10},
	})
	var chosen []scenario
	for _, s := range all {
		if strings.Contains(s.name, o.only) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// chat renders a chat request with a prompt of n characters.
func chat(n int, stream bool) string {
	const words = "the quick brown fox jumps over the lazy dog "
	prompt := strings.Repeat(words, n/len(words)+1)[:n]
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":%q}],"temperature":0.7,"max_tokens":128,"stream":%t}`,
		model, prompt, stream)
}
