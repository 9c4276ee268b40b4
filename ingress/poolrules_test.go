package ingress

import (
	"strings"
	"testing"
	"time"

	"smg/engine"
	"smg/worker"
)

// A worker's own rules of its connections hold for its requests, also once they change.
func TestWorkersOwnPool(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
	_, slow := hangs(t)
	_, stuck := hangs(t, head+"9\r\ndata: 1\n\n\r\n")
	_, fine := answers(t, jsonOK)
	g, _ := retrying(t, 2, slow, fine, stuck)
	own := &worker.PoolRules{Timeout: 50 * time.Millisecond}
	for _, w := range g.selector.workers {
		w.Pool = own
	}
	workers := g.selector.workers
	g.selector.workers = workers[:2]
	if r := g.do(chat(chatBody)); r.status != 200 {
		t.Errorf("another worker could have answered: %d %s", r.status, r.body)
	}
	if got := g.selector.ends[worker.LeaseID{Incarnation: 1, Plan: 1}]; len(got) != 1 || got[0] != (ending{Outcome: worker.Failure}) {
		t.Errorf("the slow worker's lease ended %v, want one failure of one that was reached", got)
	}
	g.selector.workers = workers[2:]
	r := g.do(chat(streamBody))
	if r.status != 200 || !strings.Contains(r.body, "data: 1\n\n") || !strings.Contains(r.body, "upstream_stream_error") || strings.Contains(r.body, "[DONE]") {
		t.Errorf("a stream beyond the worker's limit: %d %s", r.status, r.body)
	}
	within(t, patience, "the lease of the stream to end", func() bool { return g.selector.active() == 0 })
	if got := g.selector.last(t); got != (ending{Outcome: worker.Failure}) {
		t.Errorf("the stream's lease ended %v, want a failure", got)
	}

	first, err := g.Server.target(workers[1])
	if err != nil {
		t.Fatal(err)
	}
	changed := *workers[1]
	changed.Pool = &worker.PoolRules{MaxIdle: new(0)}
	second, err := g.Server.target(&changed)
	if err != nil || second == first || !second.Follows(changed.Pool) {
		t.Errorf("the worker's rules have changed, its target has not: %v", err)
	}
	if n := size(&g.Server.targets); n != 3 {
		t.Errorf("%d targets of three workers", n)
	}
}

// However many requests find a worker at the same time, it has one target: one that
// nobody knows of would keep its connections for ever.
func TestOneTargetOfAWorker(t *testing.T) {
	g := start(t, nil)
	w := &worker.Spec{ID: worker.IDOf("http://127.0.0.1:1"), URL: "http://127.0.0.1:1"}
	const many = 50
	got := make(chan *engine.Target, many)
	for range many {
		go func() {
			target, err := g.Server.target(w)
			if err != nil {
				t.Error(err)
			}
			got <- target
		}()
	}
	first := <-got
	for range many - 1 {
		if target := <-got; target != first {
			t.Fatal("a worker has several targets")
		}
	}
}
