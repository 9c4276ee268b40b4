package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestModels(t *testing.T) {
	args := "launch --worker-urls http://a:1 --model-alias a=m --model-alias b=m=n --model-alias a=m --drain-settle-secs 0 --remove-unhealthy-workers"
	want := Models{Aliases: []ModelAlias{{"a", "m"}, {"b", "m=n"}, {"a", "m"}}, RemoveUnhealthy: true}
	if diff := cmp.Diff(want, must(t, nil, strings.Fields(args)...).Launch.Models); diff != "" {
		t.Error(diff)
	}
	if got := must(t, nil, "serve", "--backend", "sim", "--router-drain-settle-secs", "9").Launch.Models.DrainSettle; got != 9*time.Second {
		t.Errorf("serve drains for %v, want 9s", got)
	}
}
