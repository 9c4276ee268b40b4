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
