//go:build linux

package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// inRoles is a valid configuration of simulated engines in roles.
func inRoles(encode, prefill, decode int, args ...string) Config {
	cfg := DefaultConfig()
	cfg.Backend, cfg.EngineArgs = BackendSim, args
	cfg.Encode, cfg.Prefill, cfg.Decode = encode, prefill, decode
	return cfg
}

// placed is where the engines of cfg would be.
func placed(t *testing.T, cfg Config, free portTest) ([]Place, error) {
	t.Helper()
	b, err := cfg.backend()
	if err != nil {
		t.Fatal(err)
	}
	share, err := cfg.sharing(b)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.places(share, free)
}

func testRoleCommandLines(t *testing.T) {
	const (
		producer = ` --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_producer"}`
		consumer = ` --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_consumer"}`
		encodes  = ` --ec-transfer-config {"ec_connector":"ECExampleConnector","ec_role":"ec_producer"}`
		embeds   = ` --ec-transfer-config {"ec_connector":"ECExampleConnector","ec_role":"ec_consumer"} --ec-peers http://127.0.0.1:31000,http://127.0.0.1:31003`
	)
	tests := []struct {
		name string
		cfg  Config
		want []string // behind "--port P"
		env  []string
	}{
		{"sglang", inRoles(0, 2, 1), []string{
			"31000 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998",
			"31003 --disaggregation-mode prefill --disaggregation-bootstrap-port 8999",
			"31006 --disaggregation-mode decode",
		}, []string{"", "", ""}},
		{"sglang, said", inRoles(0, 1, 1, "--engine=sglang", "--disaggregation-mode", "x", "--disaggregation-bootstrap-port=1", "--x", "y"), []string{
			"31000 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998 --engine=sglang --x y",
			"31003 --disaggregation-mode decode --engine=sglang --x y",
		}, []string{"", ""}},
		{"vllm", inRoles(0, 1, 2, "-engine", "vllm", "--kv-role", "kv_both"), []string{
			"31000" + producer + " -engine vllm", "31003" + consumer + " -engine vllm", "31006" + consumer + " -engine vllm",
		}, []string{"5600", "5601", "5602"}},
		{"encoders speak vllm", inRoles(2, 1, 1), []string{
			"31000 --engine vllm" + encodes, "31003 --engine vllm" + encodes,
			"31006 --engine vllm" + producer + embeds, "31009 --engine vllm" + consumer + embeds,
		}, []string{"", "", "5600", "5601"}},
		{"encoders of sglang, which prefill asks", inRoles(2, 1, 1, "--engine", "sglang", "--language-only"), []string{
			"31000 --encoder-only --engine sglang", "31003 --encoder-only --engine sglang",
			"31006 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998 --language-only --encoder-urls http://127.0.0.1:31000 http://127.0.0.1:31003 --engine sglang",
			"31009 --disaggregation-mode decode --engine sglang",
		}, []string{"", "", "", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			places, err := placed(t, tt.cfg, func(string, int) (bool, error) { return true, nil })
			if err != nil {
				t.Fatal(err)
			}
			var got, env []string
			for _, p := range places {
				argv, err := tt.cfg.CommandLine("prog", p)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.TrimPrefix(strings.Join(argv, " "), "prog --host 127.0.0.1 --port "))
				env = append(env, strings.TrimPrefix(strings.Join(tt.cfg.additions(p)[3:], " "), "VLLM_NIXL_SIDE_CHANNEL_PORT="))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.env, env); diff != "" {
				t.Error(diff)
			}
		})
	}

	t.Run("args of one role", func(t *testing.T) {
		cfg := inRoles(0, 1, 1, "--x", "1")
		cfg.PrefillArgs, cfg.DecodeArgs, cfg.EncodeArgs = []string{"--p", "--port", "9"}, []string{"--d"}, []string{"--e"}
		for role, want := range map[worker.Leg]string{worker.Prefill: " --x 1 --p", worker.Decode: " --x 1 --d"} {
			argv, err := cfg.CommandLine("prog", Place{Role: role, Port: 1})
			if got := strings.Join(argv, " "); err != nil || !strings.HasSuffix(got, "--disaggregation-mode "+role.String()+want) {
				t.Errorf("%v: %s", err, got)
			}
		}
		if diff := cmp.Diff([]string{"--port"}, cfg.Dropped()); diff != "" {
			t.Error(diff)
		}
	})
}

func testRolePorts(t *testing.T) {
	tests := []struct {
		name      string
		change    func(*Config)
		busy      []int
		ports     []int // encode, prefill, decode
		bootstrap []int
		want      string // of the error
	}{
		{"8998 is the first prefill's", func(*Config) {}, nil, []int{31000, 31003, 31006, 31009}, []int{8998, 8999}, ""},
		{"busy", func(*Config) {}, []int{8998, 9000, 31003}, []int{31000, 31004, 31007, 31010}, []int{8999, 9001}, ""},
		{"reserved", func(c *Config) { c.ReservedPorts = []int{8999} }, nil, []int{31000, 31003, 31006, 31009}, []int{8998, 9000}, ""},
		{"an engine is there", func(c *Config) { c.BasePort = 8995 }, nil, []int{8995, 8998, 9001, 9004}, []int{8999, 9000}, ""},
		{"too few", func(c *Config) { c.BootstrapBasePort = 65535 }, nil, nil, nil, "could not find 2 ports from 65535"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := inRoles(0, 2, 2)
			tt.change(&cfg)
			places, err := placed(t, cfg, func(_ string, port int) (bool, error) { return !slices.Contains(tt.busy, port), nil })
			if tt.want != "" {
				if !strings.Contains(report(err), tt.want) || !strings.Contains(report(err), "--bootstrap-base-port 65535: 1 free") {
					t.Error(report(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var ports, bootstrap []int
			for _, p := range places {
				ports = append(ports, p.Port)
				if (p.BootstrapPort != 0) != (p.Role == worker.Prefill) {
					t.Errorf("%s has bootstrap port %d", p.Name(), p.BootstrapPort)
				}
				if p.BootstrapPort != 0 {
					bootstrap = append(bootstrap, p.BootstrapPort)
				}
			}
			if diff := cmp.Diff(tt.ports, ports); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.bootstrap, bootstrap); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRolesAreChecked(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want []string
	}{
		{"no decode", inRoles(0, 1, 0), []string{"--prefill-replicas 1 and --decode-replicas 0: both"}},
		{"encoders alone", inRoles(1, 0, 0), []string{"both must be at least 1"}},
		{"negative", inRoles(-1, 1, 1), []string{"--encode-replicas -1"}},
		{"bootstrap port", func() Config { c := inRoles(0, 1, 1); c.BootstrapBasePort = 0; return c }(), []string{"--bootstrap-base-port 0"}},
		{"llamacpp", func() Config { c := inRoles(0, 1, 1); c.Backend, c.Model = BackendLlamaCPP, "m"; return c }(), []string{"--backend llamacpp: llamacpp has no prefill/decode roles"}},
		{"unknown kind", inRoles(0, 1, 1, "--engine", "foo"), []string{`--engine foo: "foo" is no kind of simulated engine`}},
		{"two kinds", func() Config { c := inRoles(0, 1, 1); c.DecodeArgs = []string{"--engine=vllm"}; return c }(), []string{"engines of two kinds"}},
		{"the same kind twice", func() Config {
			c := inRoles(0, 1, 1)
			c.PrefillArgs, c.DecodeArgs = []string{"--engine=vllm"}, []string{"--engine", "sglang", "--engine", "vllm"}
			return c
		}(), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := fmt.Sprint(tt.cfg.Validate())
			if (tt.want == nil) != (got == "<nil>") {
				t.Error(got)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("faults lack %q:\n%s", want, got)
				}
			}
		})
	}
	if cfg := DefaultConfig(); cfg.HasRoles() || cfg.Total() != 1 || cfg.Count(worker.Regular) != 1 || cfg.Count(worker.Decode) != 0 {
		t.Errorf("without roles: %d engines", cfg.Total())
	}
	if cfg := inRoles(1, 2, 3); cfg.Total() != 6 || cfg.Count(worker.Regular) != 0 {
		t.Errorf("with roles: %d engines", cfg.Total())
	}
}

// startRoles starts fake engines in roles.
func startRoles(t *testing.T, behaviour string, change func(*Config), out *buffer, log *slog.Logger) *Group {
	t.Helper()
	cfg := testConfig(1, behaviour)
	cfg.Backend, cfg.Model = BackendSim, ""
	cfg.Prefill, cfg.Decode = 1, 2
	cfg.BootstrapBasePort = cfg.BasePort + 10
	change(&cfg)
	return launch(t, cfg, out, log)
}

func testRolesRun(t *testing.T) {
	t.Parallel()
	var out, logs buffer
	g := startRoles(t, "env serve hang", func(*Config) {}, &out, slog.New(slog.NewTextHandler(&logs, nil)))
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(report(err))
	}
	eps := g.Endpoints()
	var names []string
	for i, p := range g.Processes() {
		e := eps[i]
		names = append(names, p.Name())
		if e.Role != p.Role() || e.Rank != p.Rank() || e.URL != p.URL() || !running(e.PID) {
			t.Errorf("endpoint %+v", e)
		}
		line := fmt.Sprintf("%s  pid %d  port %d", p.Name(), e.PID, e.Port)
		if e.BootstrapPort != 0 {
			line += fmt.Sprintf("  bootstrap %d", e.BootstrapPort)
		}
		for _, want := range []string{
			line + "\n",
			p.Name() + "  ready after ",
			fmt.Sprintf("[%s] SMG_WORKER_RANK=%d\n", p.Name(), i),
			fmt.Sprintf("[%s] args --host 127.0.0.1 --port %d --disaggregation-mode %s", p.Name(), e.Port, e.Role),
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("output lacks %q:\n%s", want, out.String())
			}
		}
	}
	if diff := cmp.Diff([]string{"prefill 0", "decode 0", "decode 1"}, names); diff != "" {
		t.Error(diff)
	}
	if eps[0].BootstrapPort < g.cfg.BootstrapBasePort || eps[1].BootstrapPort != 0 {
		t.Errorf("endpoints %+v", eps)
	}

	done := make(chan error, 1)
	go func() { done <- g.Run(t.Context()) }()
	for i := range eps {
		if err := syscall.Kill(eps[i].PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitFor(t, &logs, "engine ended", i+1)
	}
	if err := <-done; !errors.Is(err, ErrNoEngines) || !strings.Contains(err.Error(), "decode 1 was the last engine to end") {
		t.Error(report(err))
	}
	if !strings.Contains(logs.String(), "role=decode engine=1 ") || strings.Count(logs.String(), "role=prefill engine=0 ") != 1 {
		t.Errorf("logs %s", logs.String())
	}
}

func TestRolesFail(t *testing.T) {
	t.Parallel()
	t.Run("exit", func(t *testing.T) {
		t.Parallel()
		behaviour := "rank0:serve rank0:hang rank1:hang rank2:err=port_1:_already_in_use_(--disaggregation-bootstrap-port) rank2:exit=1"
		g := startRoles(t, behaviour, func(*Config) {}, &buffer{}, discardLog())
		got := report(g.WaitReady(t.Context()))
		for _, want := range []string{"decode 1 ended during start-up: exit code 1", "last output of decode 1:", "give another --bootstrap-base-port"} {
			if !strings.Contains(got, want) {
				t.Errorf("report lacks %q:\n%s", want, got)
			}
		}
	})
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		g := startRoles(t, "rank1:serve hang", func(c *Config) { c.StartupTimeout = 300 * time.Millisecond }, &buffer{}, discardLog())
		err := g.WaitReady(t.Context())
		if !errors.Is(err, ErrStartupTimeout) || !strings.Contains(err.Error(), "prefill 0, decode 1 not ready after 0.3 s") {
			t.Error(report(err))
		}
	})
}

func TestRoleLogs(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		startRoles(t, "say=hello hang", func(c *Config) { c.Log, c.LogDir = LogFile, dir }, &buffer{}, discardLog())
		for _, name := range []string{"prefill-0", "decode-0", "decode-1"} {
			eventually(t, name+" has its file", func() bool {
				data, err := os.ReadFile(dir + "/" + name + ".log")
				return err == nil && string(data) == "hello\n"
			})
		}
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		var out, logs buffer
		startRoles(t, "rank0:say=hello hang", func(c *Config) { c.JSON = true }, &out, slog.New(slog.NewTextHandler(&logs, nil)))
		waitFor(t, &out, "\n", 1)
		var line struct{ Source, Message string }
		if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line.Source != "prefill-0" || line.Message != "hello" {
			t.Errorf("%v: %s", err, out.String())
		}
		if strings.Count(logs.String(), "bootstrap_port=") != 1 {
			t.Errorf("logs %s", logs.String())
		}
	})
}
