package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// gateway is a running smg with its engines.
type gateway struct {
	*process
	url     string
	metrics string
	engines []string
	pids    []int // of the engines that it started
}

// gatewayArgs are what each gateway of a test needs, with serve's prefix or none.
func gatewayArgs(t *testing.T, prefix string) []string {
	t.Helper()
	return []string{
		"--port", strconv.Itoa(port(t)), "--" + prefix + "prometheus-host", "127.0.0.1", "--" + prefix + "prometheus-port", "0",
	}
}

// serveArgs is smg serve with simulated engines. args follow the flags that every
// test needs.
func serveArgs(t *testing.T, engines int, args ...string) []string {
	t.Helper()
	all := []string{"serve", "--backend", "sim", "--data-parallel-size", strconv.Itoa(engines), "--worker-base-port", strconv.Itoa(block(t, 20))}
	return append(append(all, gatewayArgs(t, "router-")...), args...)
}

// serve starts smg serve with simulated engines and waits until all are ready.
func serve(t *testing.T, engines int, args ...string) *gateway {
	t.Helper()
	g := &gateway{process: start(t, "smg", serveArgs(t, engines, args...)...)}
	g.says("^try: ")
	g.url = g.says(`^api +(http://\S+)`)[1]
	g.metrics = g.says(`^metrics +(http://\S+)`)[1]
	for i := range engines {
		pid, port := g.engine(i)
		g.pids = append(g.pids, pid)
		g.engines = append(g.engines, fmt.Sprintf("http://127.0.0.1:%d", port))
	}
	return g
}

// engine waits for the start of an engine.
func (p *process) engine(rank int) (pid, port int) {
	p.t.Helper()
	m := p.says(fmt.Sprintf(`^engine %d +pid (\d+) +port (\d+)`, rank))
	for i, n := range []*int{&pid, &port} {
		v, err := strconv.Atoi(m[i+1])
		if err != nil {
			p.t.Fatal(err)
		}
		*n = v
	}
	return pid, port
}

// launch starts smg launch in front of workers that run already. It does not wait
// for them.
func launch(t *testing.T, workers []string, args ...string) *gateway {
	t.Helper()
	all := append([]string{"launch", "--host", "127.0.0.1"}, gatewayArgs(t, "")...)
	all = append(append(all, args...), "--worker-urls")
	g := &gateway{process: start(t, "smg", append(all, workers...)...), engines: workers}
	m := g.says(`^api +(http://\S+) +metrics +(http://\S+)`)
	g.url, g.metrics = m[1], m[2]
	return g
}

// launched is launch, and waits for the workers.
func launched(t *testing.T, workers []string, args ...string) *gateway {
	t.Helper()
	g := launch(t, workers, args...)
	g.says(`^ready +` + strconv.Itoa(len(workers)) + ` of `)
	return g
}

// gauges are the values of a metric, by its labels.
func gauges(t *testing.T, metrics, name string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for line := range strings.Lines(get(t, metrics)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || (rest[0] != '{' && rest[0] != ' ') {
			continue
		}
		i := strings.LastIndexByte(rest, ' ')
		v, err := strconv.ParseFloat(rest[i+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		values[rest[:i]] = v
	}
	return values
}

// total is the sum of a metric over its labels.
func total(t *testing.T, metrics, name string) float64 {
	t.Helper()
	sum := 0.0
	for _, v := range gauges(t, metrics, name) {
		sum += v
	}
	return sum
}

// count is how many lines match.
func (p *process) count(pattern string) int {
	re, n := regexp.MustCompile(pattern), 0
	for _, l := range p.said() {
		if re.MatchString(l) {
			n++
		}
	}
	return n
}
