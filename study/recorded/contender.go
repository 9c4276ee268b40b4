package recorded

import (
	"strconv"

	"github.com/zeebo/xxh3"

	"smg/policy"
	"smg/study"
	"smg/worker"
)

// Contender is a policy that is told of requests what the site's ingress would tell
// it.
func (t *Traffic) Contender(cfg policy.Config) (study.Contender, error) {
	book, err := policy.NewBook(cfg, policy.Deps{})
	if err != nil {
		return study.Contender{}, err
	}
	reads := book.Reads()
	return study.Contender{
		Name: cfg.Policy, Leg: t.Leg, New: study.Built(cfg),
		Inputs: func(i int, req *policy.Request) { t.tell(i, reads, req) },
	}, nil
}

// tell writes what a policy that reads something is told of request i.
func (t *Traffic) tell(i int, reads policy.Inputs, req *policy.Request) {
	c, p := t.calls[i], &t.prompts[i]
	req.Keys = c.keys(reads)
	if n := c.ask.Target; n != nil && reads.Has(policy.ReadsKey) {
		req.Target = strconv.Itoa(*n)
	}
	req.Tokens = c.ask.Tokens
	if reads.Has(policy.ReadsTokens) && !p.text {
		req.TokenIDs = p.appendIDs(nil)
	}
	if reads.Has(policy.ReadsText) && p.text {
		req.Text = string(p.appendText(nil))
	}
	if reads&(policy.ReadsText|policy.ReadsSize) != 0 {
		req.Chars = c.ask.Chars
	}
	if reads&(policy.ReadsText|policy.ReadsTokens) != 0 {
		req.Namespace = partition(c.ask.Space)
	}
}

// partition is a cache partition as it is told, 0 for none.
func partition(space string) uint64 {
	if space == "" {
		return 0
	}
	return max(1, xxh3.HashString(space))
}

// keys are the request's keys. A policy that pins a kind of key that was not recorded
// pins the one of the header.
func (c *call) keys(reads policy.Inputs) worker.Keys {
	k := c.ask.Keys
	of := func(told ...string) worker.Key {
		for _, s := range told {
			if s != "" {
				return worker.HashKey(strconv.Itoa(c.file) + "/" + s)
			}
		}
		return worker.Key{}
	}
	keys := worker.Keys{Header: of(k.Header)}
	if reads.Has(policy.ReadsImplicitKey) {
		keys.Implicit = of(k.Implicit)
	}
	if reads.Has(policy.ReadsPinnedKey) {
		keys.Pinned = of(k.Pinned, k.Header)
	}
	if reads.Has(policy.ReadsConversationKey) {
		keys.RID, keys.Conversation = of(k.RID), of(k.Conversation, k.Header)
	}
	return keys
}

// AsRecorded is the site as it was: every request goes to the worker that it went to.
// It is false if there are more of those than workers, or if nobody knows them.
func (t *Traffic) AsRecorded(workers int) (study.Contender, bool) {
	if len(t.numbers) == 0 || len(t.numbers) > workers {
		return study.Contender{}, false
	}
	return study.Contender{
		Name: "as recorded", Leg: t.Leg,
		Inputs: func(i int, req *policy.Request) {
			req.Tokens = int64(t.Requests[i].Prompt)
			req.Target = strconv.Itoa(t.number(t.calls[i].worker))
		},
		New: func(*study.Fleet, policy.Deps) (policy.Policy, error) { return again{}, nil },
	}, true
}

// number is the place of a worker among those of the model, or -1.
func (t *Traffic) number(worker int) int {
	if n, ok := t.numbers[worker]; ok {
		return n
	}
	return -1
}

// again chooses the worker that the target names.
type again struct{}

var _ policy.Policy = again{}

// Pick implements [policy.Policy].
func (again) Pick(req *policy.Request, pool *worker.Pool) (policy.Decision, error) {
	n, err := strconv.Atoi(req.Target)
	if err != nil {
		n = -1
	}
	ask := req.Ask
	ask.Tokens = req.Tokens
	taken, err := pool.Take(&ask, func(v *worker.View) int {
		if n >= v.Len() {
			return -1
		}
		return n
	})
	return policy.Decision{Taken: taken}, err
}
