package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"smg/sim/simtest"
)

func TestCLIOutput(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"79_launch":             func(t *testing.T) { plainOutput(t, launchToEnd) },
		"79_serve":              func(t *testing.T) { plainOutput(t, serveToEnd) },
		"80_launch":             jsonLaunch,
		"80_serve":              jsonServe,
		"80_serve_that_fails":   jsonFailure,
		"order_of_launch_lines": orderOfLines,
	})
}

// readyLine is how both commands say that they are ready, in either form.
const readyLine = `^ready +2 of 2|"message":"ready","workers":2`

// launchToEnd runs smg launch until it is ready, and stops it.
func launchToEnd(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	all := append([]string{"launch"}, gatewayArgs(t, "")...)
	all = append(append(all, args...), "--shutdown-grace-period-secs", "0", "--worker-urls")
	p := startWith(t, env, "smg", append(all, urls(simtest.StartN(t, 2, simtest.Config()))...)...)
	p.says(readyLine)
	p.signal(syscall.SIGTERM)
	p.ends(0)
	return p
}

// serveToEnd does the same with smg serve.
func serveToEnd(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := startWith(t, env, "smg", serveArgs(t, 2, append(args, "--router-shutdown-grace-period-secs", "0")...)...)
	p.says(readyLine)
	p.signal(syscall.SIGTERM)
	p.ends(143)
	return p
}

func plainOutput(t *testing.T, run func(*testing.T, []string, ...string) *process) {
	for _, env := range [][]string{nil, {"NO_COLOR=1"}} {
		p := run(t, env)
		if p.out.Len() > 0 {
			t.Errorf("%v: standard output has %q", env, p.out.String())
		}
		p.silent("[\x1b\r]")
	}
}

// jsonLines are the messages of a log for machines: every line has to be an object.
func jsonLines(t *testing.T, p *process) (messages []string) {
	t.Helper()
	for _, line := range p.said() {
		var event struct {
			Level, Message, Msg string
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Level == "" || event.Message+event.Msg == "" {
			t.Errorf("no log line of JSON (%v): %s", err, line)
		}
		messages = append(messages, event.Message)
	}
	if p.out.Len() > 0 {
		t.Errorf("standard output has %q", p.out.String())
	}
	return messages
}

func wantMessages(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("there is no event %q in %q", w, got)
		}
	}
}

func jsonLaunch(t *testing.T) {
	wantMessages(t, jsonLines(t, launchToEnd(t, nil, "--log-json")), "startup", "ready", "stopping", "draining")
}

func jsonServe(t *testing.T) {
	p := serveToEnd(t, nil, "--router-log-json")
	wantMessages(t, jsonLines(t, p), "startup", "engine started", "engine ready", "ready", "serving", "stopping", "draining")
	if !strings.Contains(p.stderr(), `"source":"engine-1"`) {
		t.Error("no line of engine 1")
	}
}

func jsonFailure(t *testing.T) {
	p := scripted(t, 1, script(t, `echo the weights are torn; exit 3`), "--router-log-json")
	p.ends(1)
	wantMessages(t, jsonLines(t, p), "failed")
	p.says(`"failed","error":"engine 0 ended during start-up: exit code 3","exit_code":1,"report":\[.*the weights are torn`)
}

// orderOfLines holds what a first-time user reads: version, mode, workers,
// listeners, readiness.
func orderOfLines(t *testing.T) {
	p := launchToEnd(t, nil)
	var got []string
	for _, line := range p.said() {
		if word, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(word, "time=") {
			got = append(got, word)
		}
	}
	want := []string{"smg", "mode", "regular", "bus", "api", "waiting", "ready"}
	if !slices.Equal(got, want) {
		t.Errorf("the lines begin with %v, want %v", got, want)
	}
}
