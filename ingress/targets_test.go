package ingress

import "testing"

func TestTargetsAreForgotten(t *testing.T) {
	_, stays := answers(t, jsonOK)
	_, goes := answers(t, jsonOK)
	g := start(t, []string{stays, goes})
	for range 4 {
		if r := g.do(chat(chatBody)); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	targets := func() (n int) {
		g.Server.targets.Range(func(any, any) bool { n++; return true })
		return n
	}
	g.Server.forget(g.engines)
	if n := targets(); n != 2 {
		t.Fatalf("%d targets of two workers", n)
	}
	old, err := g.Server.target(goes)
	if err != nil {
		t.Fatal(err)
	}
	all := g.fleet.workers
	g.fleet.workers = all[:1]
	g.Server.forget(g.engines)
	if n := targets(); n != 1 {
		t.Errorf("%d targets of one worker", n)
	}
	g.fleet.workers = all // it is back
	for range 4 {
		if r := g.do(chat(chatBody)); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if now, err := g.Server.target(goes); err != nil || now == old {
		t.Errorf("the old target is used again: %v", err)
	}
}

func TestLongEventsTakeOfTheBudget(t *testing.T) {
	var b buffers
	b.left.Store(1000)
	f := framer{budget: &b}
	piece := make([]byte, freeEvent)
	for i := range piece {
		piece[i] = 'x'
	}
	f.add(piece)
	if _, ok := f.next(); ok || f.raw || b.left.Load() != 1000 {
		t.Fatalf("raw %v, %d left", f.raw, b.left.Load())
	}
	f.add(piece[:600])
	if _, ok := f.next(); ok || f.raw || b.left.Load() != 400 {
		t.Fatalf("raw %v, %d left", f.raw, b.left.Load())
	}
	f.add(piece[:600])
	if e, ok := f.next(); !ok || !f.raw || len(e) != freeEvent+1200 {
		t.Errorf("%d bytes, raw %v: there is no room for more", len(e), f.raw)
	}
	f.release()
	if left := b.left.Load(); left != 1000 {
		t.Errorf("%d left", left)
	}
}
