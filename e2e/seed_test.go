package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestDocumentedCommandLines runs each command line of the documentation that smg
// follows as a shell does: until it is ready, one request, and its stop. The tests of the
// Python package do the same with what a wheel installs.
func TestDocumentedCommandLines(t *testing.T) {
	text, err := os.ReadFile("testdata/seed_commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for block := range strings.SplitSeq(string(text), "\n\n") {
		if line := strings.TrimSpace(block); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 11 {
		t.Fatalf("%d command lines, want 11", len(lines))
	}
	hosts := namedEngines(t)
	for _, line := range lines {
		name := append(policiesOf(line), options.FindAllString(line, -1)...)
		t.Run(strings.Join(name, "_"), func(t *testing.T) {
			parallel(t)
			p := typed(t, hosts.Replace(line))
			if strings.Contains(line, "grpc://") {
				p.ends(1)
				p.says("gRPC engines are not supported yet")
				return
			}
			p.says(`^ready +(\d+) of `)
			for _, policy := range policiesOf(line) {
				p.says(`policy ` + policy + `\b`)
			}
			if a := do(t, http.MethodPost, p.says(`^api +(http://\S+)`)[1]+"/v1/chat/completions", chat); a.status != http.StatusOK {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			p.signal(syscall.SIGTERM)
			p.ends(0)
		})
	}
}

var (
	policyFlags = regexp.MustCompile(`policy (\w+)`)
	options     = regexp.MustCompile(`load-metric|--model-path`) // what two lines of one policy differ in
)

// policiesOf are the policies that a command line names.
func policiesOf(line string) (names []string) {
	for _, m := range policyFlags.FindAllStringSubmatch(line, -1) {
		names = append(names, m[1])
	}
	return names
}

// typed runs a command line by a shell. What it leaves to defaults that other tests
// need too comes from variables.
func typed(t *testing.T, line string) *process {
	t.Helper()
	return startCommand(t, []string{
		"NO_COLOR=1", "PATH=" + programs + string(os.PathListSeparator) + os.Getenv("PATH"), "SMG_FLAG_HOST=127.0.0.1",
		"SMG_FLAG_PORT=" + strconv.Itoa(port(t)), "SMG_FLAG_PROMETHEUS_HOST=127.0.0.1", "SMG_FLAG_PROMETHEUS_PORT=0",
		"SMG_FLAG_SHUTDOWN_GRACE_PERIOD_SECS=1",
	}, exec.Command("sh", "-c", "exec "+line))
}

// namedEngines are simulated engines at the ports of the documentation, each at an
// address of its own, which stands in for its name.
func namedEngines(t *testing.T) *strings.Replacer {
	t.Helper()
	var names []string
	address := func(name string) string {
		at := fmt.Sprintf("127.%d.%d.%d", 100+os.Getpid()/250%100, os.Getpid()%250, 1+len(names)/2)
		names = append(names, "//"+name+":", "//"+at+":")
		return at
	}
	for _, set := range []struct {
		hosts []string
		flags []string
	}{
		{[]string{"w1", "w2"}, nil},
		{[]string{"prefill1", "prefill2"}, []string{"--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", "9001"}},
		{[]string{"decode1", "decode2"}, []string{"--disaggregation-mode", "decode"}},
	} {
		args := append([]string{"--time-scale", "0"}, set.flags...)
		for _, host := range set.hosts {
			args = append(args, "--listen", address(host)+":8000")
		}
		start(t, "smg-sim", args...).says("^listening on ")
	}
	address("worker1") // nobody is there
	address("worker2")
	return strings.NewReplacer(names...)
}
