package main

import (
	"fmt"
	"strings"

	"smg/bench/load"
)

// policy is one that a goal is about, and the kinds of requests that it sees.
type policy struct {
	name  string
	kinds []kind
	// quiet: it reads no loads, and is looked at with nobody polling them.
	quiet bool
}

// kind is a kind of requests.
type kind struct {
	name string
	// visits: they go to all workers, one after another.
	visits bool
	// prompts is how many different prompts there are, 0 for a new one each time.
	prompts int
}

var policies = []policy{
	{name: "least_load", kinds: []kind{{name: "least_load", visits: true, prompts: 1}}},
	{name: "cache_aware", kinds: []kind{
		{name: "cache_aware, hits", prompts: 64},
		{name: "cache_aware, misses", visits: true},
	}},
	{name: "random", quiet: true},
}

// promptLength is that of a prompt in characters.
const promptLength = 400

// requests are n small chats, of which no round repeats those of another unless they
// are meant to hit.
func (k kind) requests(host string, n, round int) [][]byte {
	different := n
	if k.prompts > 0 {
		different = k.prompts
		round = 0
	}
	list := make([][]byte, max(1, different))
	for i := range list {
		list[i] = load.Post(host, path, chat(fmt.Sprintf("%04d %06d ", round, i)))
	}
	return list
}

// chat renders a chat request whose prompt begins with a text.
func chat(begin string) string {
	prompt := begin + strings.Repeat(begin, promptLength/len(begin))
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":128}`, model, prompt)
}
