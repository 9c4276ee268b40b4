package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"smg/e2e/manifest"
	"smg/sim/simtest"
)

// guarded is a NATS server as deploy/nats has it, and what it refused anybody.
type guarded struct {
	at string

	mu      sync.Mutex
	refused []string
}

// startGuarded starts one on a free port, with its files in a folder of the test's.
// The passwords are [natsPassword].
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	for _, name := range []string{"GATEWAY", "INGRESS", "SELECTOR"} {
		t.Setenv("SMG_NATS_"+name, natsPassword)
	}
	opts, err := server.ProcessConfigFile(filepath.Join("..", "deploy", "nats", "smg.conf"))
	if err != nil {
		t.Fatal(err)
	}
	n := &guarded{}
	n.at = startServer(t, opts, n).Addr().String()
	return n
}

// startServer starts a NATS server on a free port of this machine until the test
// ends.
func startServer(t *testing.T, opts *server.Options, log server.Logger) *server.Server {
	t.Helper()
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	if opts.JetStream {
		opts.StoreDir = t.TempDir()
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	if log != nil {
		ns.SetLoggerV2(log, false, false, false)
	}
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not come up")
	}
	return ns
}

func (n *guarded) url(user string) string {
	return "nats://" + user + ":" + natsPassword + "@" + n.at
}

// Errorf is told what the server refuses.
func (n *guarded) Errorf(format string, v ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = append(n.refused, fmt.Sprintf(format, v...))
}

func (n *guarded) Noticef(string, ...any) {}
func (n *guarded) Warnf(string, ...any)   {}
func (n *guarded) Fatalf(string, ...any)  {}
func (n *guarded) Debugf(string, ...any)  {}
func (n *guarded) Tracef(string, ...any)  {}

// refusals are those that say a word.
func (n *guarded) refusals(word string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.refused), func(s string) bool { return !strings.Contains(s, word) })
}

// TestPermissions runs the services under the users of deploy/nats.
func TestPermissions(t *testing.T) {
	t.Run("services", func(t *testing.T) {
		n := startGuarded(t)
		engines := urls(simtest.StartN(t, 2, simtest.Config()))
		// The selector comes first, and makes the bucket.
		selector, page := selectorOn(t, n.url("selector-regular"), "regular", "--policy", "round_robin")
		second, _ := selectorOn(t, n.url("selector-regular"), "regular", "--policy", "round_robin")
		g := ingressOn(t, n.url("ingress"), "--worker-urls", engines[0])
		g.says(`^ready +1 of 1 worker`)
		asks(t, g, 0, "workers", "add", engines[1], "--wait-secs", "60")
		whole(t, g, 10)
		probed(t, "selector-regular.yaml", map[string]string{"metrics": page})
		probed(t, "ingress.yaml", map[string]string{"metrics": g.metrics, "http": g.url})
		if a := do(t, http.MethodPatch, g.url+"/workers/"+engines[1], `{"labels":{"zone":"a"}}`); a.status != http.StatusAccepted {
			t.Errorf("PATCH: %d %s", a.status, a.body)
		}
		asks(t, g, 0, "workers", "rm", engines[1]) // which drains
		await(t, "its removal", func() bool { _, code := g.worker(engines[1]); return code == http.StatusNotFound })
		n.periodic(t, "state.regular", "beat.regular", "leases.regular")
		whole(t, g, 10)
		n.fine(t, selector, second, g.process)
	})
	t.Run("pins", func(t *testing.T) {
		n := startGuarded(t)
		pinned := []string{"--policy", "manual"}
		first, _ := selectorOn(t, n.url("selector-regular"), "regular", pinned...)
		second, _ := selectorOn(t, n.url("selector-regular"), "regular", pinned...)
		g := ingressOn(t, n.url("ingress"), append([]string{"--worker-urls"}, urls(simtest.StartN(t, 2, simtest.Config()))...)...)
		g.says(`^ready +2 of 2 workers`)
		whole(t, g, 1)
		for i := range 20 {
			askChat(t, g.url, "X-SMG-Routing-Key", fmt.Sprint("key ", i))
		}
		n.holds(t, "KV_smg_v1_default_pins", 20)
		n.fine(t, first, second, g.process)
	})
	t.Run("legs", func(t *testing.T) {
		n := startGuarded(t)
		pd := simtest.StartPD(t, 1, 1, simtest.Config())
		var all []*process
		for _, leg := range []string{"prefill", "decode"} {
			p, _ := selectorOn(t, n.url("selector-"+leg), leg)
			all = append(all, p)
		}
		g := ingressOn(t, n.url("ingress"), "--pd-disaggregation", "--prefill", pd.Prefill[0].URL, "--decode", pd.Decode[0].URL)
		g.says(`^ready +2 of 2 workers`)
		whole(t, g, 10)
		n.fine(t, append(all, g.process)...)
	})
	t.Run("one_process", func(t *testing.T) {
		n := startGuarded(t)
		engines := urls(simtest.StartN(t, 2, simtest.Config()))
		g := launched(t, engines, "--nats-url", n.url("gateway"), "--policy", "manual", "--shutdown-grace-period-secs", "0")
		whole(t, g, 10)
		askChat(t, g.url, "X-SMG-Routing-Key", "key")
		n.holds(t, "KV_smg_v1_default_pins", 1)
		n.fine(t, g.process)
	})
	t.Run("child_processes", func(t *testing.T) {
		n := startGuarded(t)
		engines := urls(simtest.StartN(t, 2, simtest.Config()))
		g := launched(t, engines, "--nats-url", n.url("gateway"), "--topology", "split", "--shutdown-grace-period-secs", "0")
		whole(t, g, 10)
		n.fine(t, g.process)
	})
}

// whole asks until a selector answers, then n times more.
func whole(t *testing.T, g *gateway, n int) {
	t.Helper()
	good := func() bool {
		a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat)
		return a.status == http.StatusOK && a.header.Get("X-Smg-Degraded") == ""
	}
	await(t, "an answer of a worker that a selector chose", good)
	for range n {
		if !good() {
			t.Fatal("a request was refused, or chosen for without a selector")
		}
	}
}

// holds waits until a bucket's stream has that many messages.
func (n *guarded) holds(t *testing.T, stream string, messages uint64) {
	t.Helper()
	js := jetStream(t, n.url("gateway"))
	await(t, stream+" to be filled", func() bool {
		s, err := js.Stream(t.Context(), stream)
		return err == nil && s.CachedInfo().State.Msgs >= messages
	})
}

// probed asks for what a manifest of deploy/kubernetes/regular has a cluster ask for,
// at the ports that it names.
func probed(t *testing.T, file string, at map[string]string) {
	t.Helper()
	documents, err := manifest.Read(filepath.Join("..", "deploy", "kubernetes", "regular", file))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range manifest.Containers(documents[0]) {
		for _, p := range manifest.Probes(c) {
			n++
			url := strings.TrimSuffix(at[p.Port], "/metrics") + p.Path
			if code := status(t, url); code != http.StatusOK {
				t.Errorf("%s: %s is answered with %d", file, p.Kind, code)
			}
		}
	}
	if n != 2 {
		t.Errorf("%s has %d probes", file, n)
	}
}

// periodic waits until everybody has repeated what he repeats from time to time.
func (n *guarded) periodic(t *testing.T, subjects ...string) {
	t.Helper()
	nc, err := nats.Connect(n.url("gateway"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, s := range subjects {
		sub, err := nc.SubscribeSync("smg.v1.default." + s)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 { // two keepers, twice
			if _, err := sub.NextMsg(patience); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
}

// fine stops the services, and fails the test if the server refused them anything.
func (n *guarded) fine(t *testing.T, all ...*process) {
	t.Helper()
	for _, p := range all {
		p.signal(syscall.SIGTERM)
		p.ends(0)
		p.silent("does not let us|level=ERROR")
	}
	if r := n.refusals("iolation"); len(r) > 0 {
		t.Errorf("the server refused what the services need:\n%s", strings.Join(r, "\n"))
	}
}

// TestPermissionsEnd has each user try what is another's.
func TestPermissionsEnd(t *testing.T) {
	n := startGuarded(t)
	const s, bucket = "smg.v1.default.", "KV_smg_v1_default_workers"
	for _, tt := range []struct {
		user, subject string
		subscribe     bool
	}{
		{user: "selector-prefill", subject: s + "leases.prefill"},
		{user: "selector-prefill", subject: s + "beat.decode"},
		{user: "selector-prefill", subject: s + "state.decode"},
		{user: "selector-prefill", subject: s + "select.decode.1"},
		{user: "selector-prefill", subject: "$KV.smg_v1_default_workers.x"},
		{user: "selector-prefill", subject: "$JS.API.STREAM.DELETE." + bucket},
		{user: "selector-prefill", subject: "$JS.API.STREAM.PURGE." + bucket},
		{user: "selector-prefill", subject: "$JS.API.STREAM.UPDATE." + bucket},
		{user: "selector-prefill", subject: "$JS.API.STREAM.CREATE.other"},
		{user: "selector-prefill", subject: "$KV.smg_v1_default_pins.decode.x"},
		{user: "selector-prefill", subject: "$JS.API.STREAM.DELETE.KV_smg_v1_default_pins"},
		{user: "ingress", subject: "$KV.smg_v1_default_pins.decode.x"},
		{user: "selector-prefill", subject: s + "select.decode.*", subscribe: true},
		{user: "selector-prefill", subject: s + "leases.decode", subscribe: true},
		{user: "selector-prefill", subject: s + "replies.*", subscribe: true},
		{user: "selector-regular", subject: s + "leases.regular"},
		{user: "selector-encode", subject: s + "beat.prefill"},
		{user: "selector-decode", subject: s + "beat.prefill"},
		{user: "ingress", subject: s + "beat.prefill"},
		{user: "ingress", subject: s + "replies.1"},
		{user: "ingress", subject: "$JS.API.STREAM.DELETE." + bucket},
		{user: "ingress", subject: s + "select.prefill.*", subscribe: true},
		{user: "ingress", subject: s + "leases.prefill", subscribe: true},
		{user: "gateway", subject: "smg.v1.other.leases.regular"},
		{user: "gateway", subject: "smg.v1.other.>", subscribe: true},
		{user: "gateway", subject: "$KV.smg_v1_other_workers.x"},
		{user: "gateway", subject: "$JS.API.STREAM.DELETE." + bucket},
		{user: "gateway", subject: ">", subscribe: true},
	} {
		what := "publishes"
		if tt.subscribe {
			what = "subscribes to"
		}
		t.Run(tt.user+" "+what+" "+tt.subject, func(t *testing.T) {
			refused := make(chan error, 8) // more than one operation can give
			nc, err := nats.Connect(n.url(tt.user), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if tt.subscribe {
				_, err = nc.SubscribeSync(tt.subject)
			} else {
				err = nc.Publish(tt.subject, []byte("x"))
			}
			if err := errors.Join(err, nc.Flush()); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-refused:
				if !errors.Is(err, nats.ErrPermissionViolation) {
					t.Errorf("got %v", err)
				}
			case <-time.After(patience):
				t.Error("the server lets it")
			}
		})
	}
	if _, err := nats.Connect("nats://" + n.at); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without credentials: %v", err)
	}
}
