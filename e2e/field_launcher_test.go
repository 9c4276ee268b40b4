package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"smg/sim/simtest"
)

func TestFieldLauncher(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"LS-01_no_orphans":                     noOrphans,
		"LS-02_smg_is_killed":                  parentKilled,
		"LS-05_end_of_the_terminal":            hangup,
		"LS-06_out_of_rotation_before_it_ends": outOfRotation,
	})
	cases(t, map[string]func(t *testing.T){
		"LS-05_nohup":                nohup,
		"LS-05_nobody_reads_the_log": brokenPipe,
		"LS-07_port_of_the_user":     portOfTheUser,
	})
}

func TestCLIStop(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"67_deaf_engines_and_grandchildren": func(t *testing.T) {
			f := deafFamily(t)
			f.signal(syscall.SIGTERM)
			f.ends(143)
			f.gone()
			f.silent("would not die")
		},
		"68_helpers_that_lost_their_engine": helpersWithoutEngine,
		"68_watchdog_is_killed_too":         watchdogKilled,
		"81_credentials_of_engines":         engineCredentials,
	})
}

// family is a gateway with a mark that its process hands down to all others.
type family struct {
	*gateway
	mark string
}

// mark is an entry for the environment of one family of processes.
func mark(t *testing.T) string {
	t.Helper()
	return "E2E_FAMILY=" + strings.ReplaceAll(t.Name(), " ", "_") + strconv.Itoa(os.Getpid())
}

// marked are the command lines of the processes with a mark, by their ids. One that
// nobody has reaped has none.
func marked(t *testing.T, mark string) map[int]string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for _, name := range all {
		env, err := os.ReadFile(name)
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), mark) {
			continue
		}
		dir := filepath.Dir(name)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // it has ended meanwhile
		}
		found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
	}
	return found
}

// goneWithin is how long what smg leaves behind may live. Half a minute is what engines
// get that nothing was said about.
const goneWithin = 20 * time.Second

// gone waits until no process of the family is left.
func (f *family) gone() {
	f.t.Helper()
	start := time.Now()
	for {
		left := marked(f.t, f.mark)
		if len(left) == 0 {
			f.t.Logf("all gone after %s", time.Since(start).Round(10*time.Millisecond))
			return
		}
		if time.Since(start) > goneWithin {
			for pid, line := range left {
				f.t.Errorf("process %d is left: %s", pid, line)
				_ = syscall.Kill(pid, syscall.SIGKILL) // it is this test's
			}
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// members are the processes whose command line contains words.
func (f *family) members(words string) (pids []int) {
	for pid, line := range marked(f.t, f.mark) {
		if strings.Contains(line, words) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// served is smg serve with engines that are a script in front of a simulated one, and
// waits until it is ready.
func served(t *testing.T, engines int, program string, args ...string) *family {
	t.Helper()
	f := &family{gateway: &gateway{}, mark: mark(t)}
	all := append(serveArgs(t, engines, "--engine-bin", program, "--worker-stop-timeout", "1", "--router-shutdown-grace-period-secs", "0"), args...)
	f.process = startWith(t, []string{"NO_COLOR=1", f.mark}, "smg", append(all, "--", "--time-scale", "0")...)
	f.says("^try: ")
	f.url = f.says(`^api +(http://\S+)`)[1]
	for i := range engines {
		pid, _ := f.engine(i)
		f.pids = append(f.pids, pid)
	}
	t.Cleanup(func() {
		f.signal(syscall.SIGKILL)
		<-f.done
		f.gone()
	})
	return f
}

// deaf are engines that ignore what should end them, each with a child that does too.
const deaf = `trap '' TERM INT HUP; sleep 600 & %s "$@" & wait`

// deafFamily has three of them.
func deafFamily(t *testing.T, args ...string) *family {
	t.Helper()
	f := served(t, 3, script(t, fmt.Sprintf(deaf, program("smg-sim"))), args...)
	if n := len(f.members("sleep 600")); n != 3 {
		t.Errorf("%d children of engines, want 3", n)
	}
	if n := len(f.members("watch-engines 1s")); n != 1 {
		t.Errorf("%d watchdogs, want 1", n)
	}
	return f
}

func serveTopology(topology []string) []string { return []string{"--router-topology", topology[1]} }

func noOrphans(t *testing.T, topology ...string) {
	f := deafFamily(t, serveTopology(topology)...)
	f.signal(syscall.SIGINT)
	f.ends(130)
	if left := marked(t, f.mark); len(left) > 0 {
		t.Errorf("left when smg has ended: %v", left)
	}
}

func parentKilled(t *testing.T, topology ...string) {
	f := deafFamily(t, serveTopology(topology)...)
	f.signal(syscall.SIGKILL)
	f.ends(137)
	f.gone()
}

// helpersWithoutEngine has engines whose helpers belong to nobody but their group.
func helpersWithoutEngine(t *testing.T) {
	f := served(t, 2, script(t, `(sleep 600 &)`, "exec "+program("smg-sim")+` "$@"`))
	if n := len(f.members("sleep 600")); n != 2 {
		t.Fatalf("%d helpers, want 2", n)
	}
	f.signal(syscall.SIGKILL)
	f.ends(137)
	f.gone()
}

// watchdogKilled: whatever ends smg and its watchdog at the same time, the kernel tells
// the engines. Only Linux does.
func watchdogKilled(t *testing.T) {
	f := served(t, 2, script(t, "exec "+program("smg-sim")+` "$@"`))
	watchdogs := f.members("watch-engines")
	signalAll := func(sig syscall.Signal) {
		for _, pid := range watchdogs {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Error(err)
			}
		}
	}
	signalAll(syscall.SIGSTOP)
	f.signal(syscall.SIGKILL)
	f.ends(137)
	awaitGone(t, f.pids...)
	signalAll(syscall.SIGKILL)
	f.gone()
	if len(watchdogs) != 1 {
		t.Errorf("%d watchdogs, want one", len(watchdogs))
	}
}

// hangup ends smg as a terminal that is closed does.
func hangup(t *testing.T, topology ...string) {
	f := served(t, 2, script(t, "exec "+program("smg-sim")+` "$@"`), serveTopology(topology)...)
	f.signal(syscall.SIGHUP)
	f.ends(129)
	f.says("stopping.*signal=hangup")
	f.silent("level=(WARN|ERROR)|^error:")
	if left := marked(t, f.mark); len(left) > 0 {
		t.Errorf("left when smg has ended: %v", left)
	}
	g := launched(t, urls(simtest.StartN(t, 1, simtest.Config())), append(topology, "--shutdown-grace-period-secs", "0")...)
	g.signal(syscall.SIGHUP)
	g.ends(0)
	awaitGone(t, g.services()...)
}

// nohup starts smg so that it is to outlive its terminal.
func nohup(t *testing.T) {
	args := append([]string{"-c", `trap '' HUP; exec "$0" "$@"`, program("smg"), "launch", "--host", "127.0.0.1", "--shutdown-grace-period-secs", "0"}, gatewayArgs(t, "")...)
	p := startCommand(t, []string{"NO_COLOR=1"}, exec.Command("/bin/sh", append(args, "--worker-urls", simtest.StartN(t, 1, simtest.Config())[0].URL)...))
	url := p.says(`^api +(http://\S+)`)[1]
	p.says("^ready ")
	p.signal(syscall.SIGHUP)
	for range 3 {
		askChat(t, url)
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
	p.silent("hangup")
}

// brokenPipe closes the pipe that smg writes to: who read it may have gone along with
// the terminal.
func brokenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	entry := mark(t)
	cmd := exec.Command(program("smg"), serveArgs(t, 1, "--router-shutdown-grace-period-secs", "0", "--", "--time-scale", "0")...)
	cmd.Env, cmd.Stderr = append(os.Environ(), entry, "NO_COLOR=1"), w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var text strings.Builder
	for buf := make([]byte, 4096); !strings.Contains(text.String(), "\ntry: "); {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatalf("%v: %s", err, text.String())
		}
		text.Write(buf[:n])
	}
	r.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	if left := marked(t, entry); len(left) > 0 {
		t.Errorf("left when smg has ended: %v", left)
	}
}

// outOfRotation has a client that sends 50 requests a second for as long as its last
// look at readiness, once a second, was a good one. None of them may fail.
func outOfRotation(t *testing.T, topology ...string) {
	g := launched(t, urls(simtest.StartN(t, 2, simtest.Config())), append(topology, "--shutdown-grace-period-secs", "60")...)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: patience}
	defer client.CloseIdleConnections()
	ask := func(n int) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(chat))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Close = n%2 == 0 // every other one on a new connection
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
	var ready atomic.Bool
	ready.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer ready.Store(false)
		look := time.NewTicker(time.Second)
		defer look.Stop()
		for ; ; <-look.C {
			resp, err := client.Get(g.url + "/readiness")
			if err != nil {
				t.Errorf("readiness: %v", err)
				return
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return
			}
		}
	})
	const before = 75
	sent := 0
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ready.Load(); sent++ {
		<-tick.C
		if sent == before {
			g.signal(syscall.SIGTERM)
		}
		n := sent
		wg.Go(func() {
			if err := ask(n); err != nil {
				t.Errorf("request %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	if sent <= before {
		t.Errorf("readiness was lost after %d requests, before the signal", sent)
	}
	if s := status(t, g.url+"/liveness"); s != http.StatusOK {
		t.Errorf("liveness %d while draining", s)
	}
	t.Logf("%d requests, %d of them behind the signal", sent, sent-before)
	g.ends(0)
	g.silent("level=(WARN|ERROR)")
}

// portOfTheUser gives engines a port that the launcher does not look at.
func portOfTheUser(t *testing.T) {
	g := serve(t, 1, "--", "--port", "8080", "--time-scale", "0")
	_, at := g.engine(0)
	if at == 8080 {
		t.Fatal("the engine was given the user's port")
	}
	if by := askChat(t, g.url); by != fmt.Sprintf("http://127.0.0.1:%d", at) {
		t.Errorf("answered by %s", by)
	}
	g.says("level=WARN .*engine flags dropped.*--port")
	if n := g.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings, want one", n)
	}
	g.stop(143)
}

// engineCredentials looks for keys in everything that is said about an engine, which
// itself says all it was given.
func engineCredentials(t *testing.T) {
	const key, token = "sk-hush-0123", "hf_hush_4567"
	for _, form := range [][]string{nil, {"--router-log-json"}} {
		p := scripted(t, 1, script(t, `echo "I got $*"; exit 3`),
			append(form, "--router-log-level", "debug", "--", "--api-key", key, "--hf-token="+token)...)
		p.ends(1)
		p.says("I got .*--api-key \\*\\*\\* --hf-token=\\*\\*\\*")
		p.says("command: .*--api-key ")
		p.silent(key + "|" + token)
	}
}
