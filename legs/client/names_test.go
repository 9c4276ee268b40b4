package client

import (
	"testing"
	"time"

	"smg/worker"
)

func TestCanonical(t *testing.T) {
	c := &Client{registry: worker.NewRegistry(worker.NewFold(), 1)}
	c.cfg.Aliases = map[string]string{"nick": "m", "twice": "alias", "m": "other", "alias": "other", "gone": "nobody"}
	c.registry.Put(&worker.Spec{
		ID: worker.ID{1}, URL: "http://a:1", RegisteredAt: time.Unix(1, 0),
		Models: []worker.Model{{ID: "m", Aliases: []string{"alias"}}},
	})
	for name, want := range map[string]string{
		"nick":  "m",
		"alias": "m", // the worker's word comes first
		"twice": "m",
		"m":     "", // a model's own id is no alias
		"gone":  "nobody",
		"else":  "",
		"":      "",
	} {
		if id, ok := c.Canonical(name); id != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", name, id, ok, want)
		}
	}
}

// TestSole: a body is passed on unread only where the name that may be in it is one
// that workers know, since nobody could put their own in.
func TestSole(t *testing.T) {
	for name, tt := range map[string]struct {
		models  []worker.Model
		aliases map[string]string
		sole    string
		several bool
	}{
		"nobody":                {},
		"one":                   {models: []worker.Model{{ID: "m"}}, sole: "m"},
		"two":                   {models: []worker.Model{{ID: "m"}, {ID: "n"}}, several: true},
		"one with another name": {models: []worker.Model{{ID: "m", Aliases: []string{"alias"}}}, several: true},
		"one that is renamed":   {models: []worker.Model{{ID: "m"}}, aliases: map[string]string{"nick": "m"}, several: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Client{registry: worker.NewRegistry(worker.NewFold(), 1)}
			c.cfg.Aliases = tt.aliases
			for i, m := range tt.models {
				c.registry.Put(&worker.Spec{ID: worker.ID{byte(i)}, URL: "http://a:1", RegisteredAt: time.Unix(1, 0), Models: []worker.Model{m}})
			}
			r := c.takeReadiness()
			if r.sole != tt.sole || r.several != tt.several {
				t.Errorf("got %q, %v, want %q, %v", r.sole, r.several, tt.sole, tt.several)
			}
		})
	}
}
