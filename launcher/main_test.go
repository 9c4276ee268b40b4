//go:build linux

package launcher

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// fakeEnv switches the test binary into an engine; its value is what the engine
// does, words in order.
const fakeEnv = "LAUNCHER_FAKE_ENGINE"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == watchArg {
		limit, err := time.ParseDuration(os.Args[2])
		if err != nil {
			panic(err)
		}
		Watch(os.NewFile(3, "pipe"), limit)
		os.Exit(0)
	}
	if behaviour := os.Getenv(fakeEnv); behaviour != "" {
		fakeEngine(behaviour)
		os.Exit(0)
	}
	if behaviour := os.Getenv(launcherEnv); behaviour != "" {
		fakeLauncher(behaviour)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// fakeEngine is an engine that does what its words say: "rankN:word" is for rank N
// alone.
func fakeEngine(behaviour string) {
	rank := os.Getenv("SMG_WORKER_RANK")
	for word := range strings.FieldsSeq(behaviour) {
		if r, w, ok := strings.Cut(word, ":"); ok && strings.HasPrefix(r, "rank") {
			if strings.TrimPrefix(r, "rank") != rank {
				continue
			}
			word = w
		}
		verb, arg, _ := strings.Cut(word, "=")
		switch verb {
		case "say":
			fmt.Println(strings.ReplaceAll(arg, "_", " "))
		case "err":
			fmt.Fprintln(os.Stderr, strings.ReplaceAll(arg, "_", " "))
		case "partial":
			fmt.Print(arg)
		case "lines":
			n, _ := strconv.Atoi(arg)
			for i := range n {
				fmt.Println("line", i)
			}
		case "env":
			for _, kv := range os.Environ() {
				fmt.Println(kv)
			}
			fmt.Println("args", strings.Join(os.Args[1:], " "))
		case "sleep":
			d, _ := time.ParseDuration(arg)
			time.Sleep(d)
		case "ignore":
			signal.Ignore(syscall.SIGTERM)
			fmt.Println("ignoring")
		case "await": // until there is such a file
			for _, err := os.Stat(arg); err != nil; _, err = os.Stat(arg) {
				time.Sleep(5 * time.Millisecond)
			}
		case "child": // a helper in the same group that does as arg says
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), fakeEnv+"="+strings.ReplaceAll(arg, ",", " "), "SMG_WORKER_RANK=helper")
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				panic(err)
			}
			fmt.Println("helper", c.Process.Pid)
		case "exit":
			code, _ := strconv.Atoi(arg)
			os.Exit(code)
		case "abort":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "serve": // answers /health with arg, or 200
			status, err := strconv.Atoi(arg)
			if err != nil {
				status = http.StatusOK
			}
			l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("SMG_WORKER_PORT"))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			go func() {
				_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/health" {
						status = http.StatusNotFound
					}
					w.WriteHeader(status)
				}))
			}()
		case "inherit": // serves the listener that it was given
			l, err := net.FileListener(os.NewFile(3, "listener"))
			if err != nil {
				panic(err)
			}
			go func() { _ = http.Serve(l, http.NotFoundHandler()) }()
		case "hang": // for ever, or until told to leave
			select {}
		}
	}
}

// watchArg switches the test binary into a watchdog.
const watchArg = "watch"

// launcherEnv switches the test binary into a launcher that is killed hard. Its value
// is what the engines do.
const launcherEnv = "LAUNCHER_FAKE_LAUNCHER"

// launcherPortEnv is the first port of its engines.
const launcherPortEnv = "LAUNCHER_FAKE_PORT"

// fakeLauncher starts two engines with a watchdog, says their pids and waits to be
// killed.
func fakeLauncher(behaviour string) {
	cfg := testConfig(2, behaviour)
	cfg.BasePort, _ = strconv.Atoi(os.Getenv(launcherPortEnv))
	cfg.Watchdog, cfg.StopTimeout = []string{os.Args[0], watchArg}, 500*time.Millisecond
	g, err := New(cfg, os.Stderr, discardLog())
	if err != nil {
		panic(err)
	}
	eps, err := g.Start()
	if err != nil {
		panic(err)
	}
	if err := g.WaitReady(context.Background()); err != nil {
		panic(err)
	}
	for _, e := range eps {
		fmt.Println(e.PID)
	}
	fmt.Println("up")
	select {}
}

// buffer is a writer that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
