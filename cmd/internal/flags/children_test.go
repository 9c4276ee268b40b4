package flags

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSecretsOfChildren has children told what is secret by variables alone: a command
// line can be read by everybody on the machine.
func TestSecretsOfChildren(t *testing.T) {
	table := append(Table(), Def{Name: "key", Kind: Scalar, Value: "KEY", Secret: true, Help: "A key.", Group: groupLogs, In: serving})
	tests := []struct {
		name    string
		verb    Verb
		given   []given
		secrets []string
		args    []string
	}{
		{"launch", RunLaunch, []given{{name: "key", value: "s3cret"}, {name: "cluster", value: "c"}}, []string{"SMG_FLAG_KEY=s3cret"}, []string{"--cluster=c"}},
		{"serve", RunServe, []given{{name: "router-key", value: "s3cret"}, {name: "key", value: "an engine's"}}, []string{"SMG_FLAG_KEY=s3cret"}, nil},
		{"the bus is the parent's", RunLaunch, []given{{name: "nats-url", value: "nats://u:p@h"}, {name: "nats-listen", value: "u:p@h:1"}}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Command{Verb: tt.verb, given: rewritten{flags: tt.given}}
			s := newSet(nameIngress, table)
			if diff := cmp.Diff(tt.secrets, c.secrets(s)); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.args, c.shared(s)); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if got := c.secrets(newSet(nameSelector, table)); got != nil {
				t.Errorf("a selector, which has no such flag, is told %q", got)
			}
		})
	}
}
