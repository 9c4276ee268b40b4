package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestCLIEngines(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"62_engine_ends_during_start_up":         endsDuringStart,
		"63_engine_is_killed_while_others_load":  killedDuringStart,
		"64_start_up_timeout":                    startTimeout,
		"66_interrupt_during_start_up":           interruptedStart,
		"66_stop_while_a_request_runs":           stopWhileServing,
		"68_smg_is_killed":                       smgKilled,
		"69_engines_die":                         enginesDie,
		"engine_program_missing":                 programMissing,
		"second_signal_does_not_wait":            secondSignalToServe,
		"third_signal_kills_a_stubborn_engine":   thirdSignal,
		"engines_that_end_while_they_are_needed": allEnginesDie,
	})
}

// script is an engine program that a shell runs; it finds its number in
// SMG_WORKER_RANK.
func script(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "llama-server")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+strings.Join(lines, "\n")+"\n"), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return path
}

// scripted starts smg serve with engines that are a script.
func scripted(t *testing.T, engines int, program string, args ...string) *process {
	t.Helper()
	model := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(model, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all := append([]string{
		"serve", "--backend", "llamacpp", "--model", model, "--data-parallel-size", strconv.Itoa(engines), "--worker-base-port", strconv.Itoa(block(t, 20)),
	}, gatewayArgs(t, "router-")...)
	return startWith(t, []string{"SMG_ENGINE_BIN=" + program}, "smg", append(all, args...)...)
}

// alive says whether a process runs; one that nobody has reaped does not.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// awaitGone waits until none of the engines runs any more.
func awaitGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		await(t, fmt.Sprintf("process %d to be gone", pid), func() bool { return !alive(pid) })
	}
}

func endsDuringStart(t *testing.T) {
	p := scripted(t, 2, script(t,
		`[ "$SMG_WORKER_RANK" = 0 ] && exec sleep 600`,
		`echo reading the weights; echo the weights are torn >&2; exit 3`))
	other, _ := p.engine(0)
	p.ends(1)
	p.says("^error: engine 1 ended during start-up: exit code 3$")
	p.says("^  command: .*llama-server --model .*model.gguf --host 127.0.0.1 --port ")
	p.says("^    reading the weights$")
	p.says("^    the weights are torn$")
	p.says(`^\[engine 1\] the weights are torn$`)
	if alive(other) {
		t.Errorf("engine 0, process %d, still runs", other)
	}
}

func killedDuringStart(t *testing.T) {
	p := scripted(t, 2, script(t,
		`[ "$SMG_WORKER_RANK" = 0 ] && exec sleep 600`,
		`read -r never </dev/tty || sleep 600`))
	first, _ := p.engine(0)
	second, _ := p.engine(1)
	if err := syscall.Kill(-second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.ends(1)
	p.says(`^error: engine 1 ended during start-up: signal 9 \(killed\)$`)
	awaitGone(t, first, second)
}

func startTimeout(t *testing.T) {
	p := scripted(t, 1, script(t, `echo still reading; exec sleep 600`), "--worker-startup-timeout", "1")
	pid, _ := p.engine(0)
	p.ends(1)
	p.says("^error: engine 0 not ready after 1 s$")
	p.says("^  --worker-startup-timeout 1$")
	p.says("was still alive")
	p.says("^    still reading$")
	p.says("^  hint: .*raise --worker-startup-timeout")
	if alive(pid) {
		t.Errorf("process %d still runs", pid)
	}
}

func interruptedStart(t *testing.T) {
	dir := t.TempDir()
	p := scripted(t, 2, script(t, `trap 'echo yes >'"`+dir+`"'/$SMG_WORKER_RANK; exit 0' TERM`, `echo loading`, `while :; do sleep 0.05; done`))
	for rank := range 2 {
		p.says(fmt.Sprintf(`^\[engine %d\] loading`, rank))
	}
	first, _ := p.engine(0)
	second, _ := p.engine(1)
	p.signal(syscall.SIGINT)
	p.ends(130)
	p.silent("error:|level=ERROR")
	awaitGone(t, first, second)
	for rank := range 2 {
		if asked, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(rank))); err != nil || string(asked) != "yes\n" {
			t.Errorf("engine %d was not asked to end: %q %v", rank, asked, err)
		}
	}
}

func stopWhileServing(t *testing.T) {
	const tokens = 150
	g := serve(t, 2, "--router-shutdown-grace-period-secs", "60", "--", "--decode-step-ms", "10")
	s := openStream(t, g.url, tokens)
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGTERM) // at once, as supervisors do: it is the same
	g.says("draining in_flight=1")
	if pieces, whole := s.rest(); !whole || pieces < tokens/2 {
		t.Errorf("%d pieces, whole: %v", pieces, whole)
	}
	g.ends(143)
	g.silent("level=(WARN|ERROR)|^error:")
	awaitGone(t, g.pids...)
}

func smgKilled(t *testing.T) {
	g := serve(t, 2)
	g.signal(syscall.SIGKILL)
	g.ends(137)
	awaitGone(t, g.pids...)
}

// enginesDie asks for what a gateway without retries promises: once the probes
// have noticed, every request succeeds.
func enginesDie(t *testing.T) {
	g := serve(t, 2, "--router-policy", "round_robin", "--router-health-check-interval-secs", "1", "--router-health-failure-threshold", "1",
		"--router-shutdown-grace-period-secs", "0", "--", "--time-scale", "0")
	for range 4 {
		askChat(t, g.url)
	}
	if err := syscall.Kill(g.pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.says(`level=ERROR msg="engine ended" engine=0 .*state="signal 9 \(killed\)".*last_output=.*listening on`)
	await(t, "the engine to be out of service", func() bool { return strings.Contains(get(t, g.url+"/workers"), `"is_healthy":false`) })
	for range 20 {
		if by := askChat(t, g.url); by != g.engines[1] {
			t.Errorf("a request went to %s", by)
		}
	}
	if s := status(t, g.url+"/readiness"); s != http.StatusOK {
		t.Errorf("readiness %d with one engine left", s)
	}
	if err := syscall.Kill(g.pids[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.ends(1)
	g.says(`^error: engine 1 was the last engine to end: signal 9 \(killed\)$`)
}

func allEnginesDie(t *testing.T) {
	g := serve(t, 1, "--router-shutdown-grace-period-secs", "0", "--", "--decode-step-ms", "20")
	s := openStream(t, g.url, 1000)
	if err := syscall.Kill(g.pids[0], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, whole := s.rest(); whole {
		t.Error("the stream is whole")
	}
	g.ends(1)
	g.says("^error: engine 0 was the last engine to end: exit code 0$")
}

func programMissing(t *testing.T) {
	p := scripted(t, 2, filepath.Join(t.TempDir(), "nothing"))
	p.ends(1)
	p.says("^error: the engine program was not found$")
	p.says("^  hint: .*--engine-bin")
	p.silent("^engine 0")
}

// secondSignalToServe would take three minutes if the signal changed nothing.
func secondSignalToServe(t *testing.T) {
	g := serve(t, 2, "--", "--decode-step-ms", "20")
	openStream(t, g.url, 10_000)
	g.signal(syscall.SIGTERM)
	g.says("draining in_flight=1")
	g.again(syscall.SIGTERM)
	g.ends(143)
	g.says("cutting.* requests=1")
	g.silent("level=ERROR|^error:")
	awaitGone(t, g.pids...)
}

// thirdSignal would take half a minute if the signal changed nothing.
func thirdSignal(t *testing.T) {
	p := scripted(t, 1, script(t, `trap '' TERM INT`, `echo loading`, `while :; do sleep 0.05; done`))
	p.says(`^\[engine 0\] loading`)
	pid, _ := p.engine(0)
	p.signal(syscall.SIGINT)
	p.says("stopping")
	p.again(syscall.SIGINT)
	p.says("level=WARN .*without waiting")
	p.again(syscall.SIGINT)
	p.ends(130)
	awaitGone(t, pid)
}
