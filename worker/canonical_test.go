package worker

import "testing"

func TestCanonical(t *testing.T) {
	r := NewRegistry(NewFold(), 1)
	of := func(url string, leg Leg, models ...Model) *Spec {
		return &Spec{ID: IDOf(url), URL: url, Leg: leg, Models: models}
	}
	first := of("http://a", Prefill, Model{ID: "m", Aliases: []string{"short", "own"}})
	r.Put(first, of("http://b", Decode, Model{ID: "own"}), of("http://c", Decode, Model{ID: "m"}))
	for _, tt := range []struct{ name, id string }{
		{"short", "m"}, {"own", ""}, {"m", ""}, {"nobody's", ""}, {"", ""},
	} {
		if id, ok := r.Canonical(tt.name); id != tt.id || ok != (tt.id != "") {
			t.Errorf("%q is %q (%v), want %q", tt.name, id, ok, tt.id)
		}
	}
	r.Remove(first.ID)
	if id, ok := r.Canonical("short"); ok {
		t.Errorf("the alias of nobody is %q", id)
	}
}
