package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandLine(t *testing.T) {
	tests := []struct {
		name string
		cfg  func(*Config)
		want string
	}{
		{"sim", func(c *Config) { c.Backend, c.Model = "sim", "m" }, "prog --host 127.0.0.1 --port 31003 --model m"},
		{"sim without a model", func(c *Config) { c.Backend = "sim" }, "prog --host 127.0.0.1 --port 31003"},
		{"sim with a rest", func(c *Config) {
			c.Backend, c.Model, c.EngineArgs = "sim", "m", []string{"--time-scale", "10", "-x", "y"}
		}, "prog --host 127.0.0.1 --port 31003 --model m --time-scale 10 -x y"},
		{"llamacpp", func(c *Config) {
			c.Backend, c.Model, c.Host = "llamacpp", "m.gguf", "::1"
			c.EngineArgs = []string{"-m", "other", "--ctx-size", "4096", "--parallel", "2"}
		}, "prog --model m.gguf --host ::1 --port 31003 --metrics --ctx-size 4096 --parallel 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			tt.cfg(&cfg)
			argv, err := cfg.CommandLine("prog", Place{Port: 31003})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(argv, " "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	cfg := DefaultConfig()
	cfg.Backend = "mlx"
	if _, err := cfg.CommandLine("prog", Place{Port: 1}); !errors.Is(err, ErrBackend) {
		t.Errorf("mlx: %v", err)
	}
}

func testOwned(t *testing.T) {
	owned := ownedFlags{names: []string{"--host", "--port", "--model"}}
	tests := []struct{ name, args, rest, dropped string }{
		{"values go along", "--host 0.0.0.0 --port 1 --flag", "--flag", "--host --port"},
		{"equals form goes alone", "--model=x y --flag", "y --flag", "--model"},
		{"a boolean keeps the next flag", "--model --flag", "--flag", "--model"},
		{"at the end", "--flag --port", "--flag", "--port"},
		{"named once", "--port 1 --port=2 --port", "", "--port"},
		{"order is kept", "a --x 1 --port 3 b -y=2 --", "a --x 1 b -y=2 --", "--port"},
		{"nothing to do", "--portal 1", "--portal 1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rest, dropped := owned.remove(strings.Fields(tt.args))
			if got := strings.Join(rest, " "); got != tt.rest {
				t.Errorf("rest %q, want %q", got, tt.rest)
			}
			if got := strings.Join(dropped, " "); got != tt.dropped {
				t.Errorf("dropped %q, want %q", got, tt.dropped)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Backend = BackendSim
	if err := cfg.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	bad := Config{Backend: "mlx", Log: "loud", BasePort: 70000}
	text := bad.Validate().Error()
	for _, want := range []string{
		"--backend mlx: backend is not supported yet; use one of sglang, vllm, trtllm, llamacpp, custom, sim", "--kv-backend :", "--engine-gpus :", "--data-parallel-size 0", "--worker-host",
		"--worker-base-port 70000", "--worker-startup-timeout", "--engine-log loud", "probe interval", "stop timeout",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("faults lack %q:\n%s", want, text)
		}
	}
	bad.Backend = BackendLlamaCPP
	if text := bad.Validate().Error(); !strings.Contains(text, "--model is required") {
		t.Errorf("faults lack the model:\n%s", text)
	}
	bad.Backend, bad.Mode, bad.EngineArgs = BackendVLLM, ModeGRPC, []string{"--tp", "0"}
	bad.Encode = 1
	for _, want := range []string{"connection mode grpc is not supported yet", "--tp 0: an engine cannot have that size", "no folder for embeddings"} {
		if text := bad.Validate().Error(); !strings.Contains(text, want) {
			t.Errorf("faults lack %q:\n%s", want, text)
		}
	}
	bad.Backend, bad.Encode = BackendCustom, 0
	if text := bad.Validate().Error(); !strings.Contains(text, "--engine-cmd is required") {
		t.Errorf("faults lack the command:\n%s", text)
	}
	if _, err := New(bad, nil, nil); err == nil {
		t.Error("New has accepted it")
	}
}

func TestBundledPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	place := func(parts ...string) string {
		path := filepath.Join(append([]string{dir}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	smg, beside := place("real", "smg"), place("real", "smg-sim")
	lonely, listed := place("lonely", "smg"), place("listed", "smg-sim")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(smg, link); err != nil {
		t.Fatal(err)
	}
	binDir := []string{"SMG_BIN_DIR=/none", "SMG_BIN_DIR=" + filepath.Dir(listed)}
	tests := []struct {
		name, self string
		environ    []string
		want       string
	}{
		{"beside", smg, binDir, beside},
		{"beside, through a link", link, nil, beside},
		{"SMG_BIN_DIR, the last entry counts", lonely, binDir, listed},
		{"nowhere", lonely, nil, ""},
		{"own path unknown", "", binDir, listed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := bundledPath("smg-sim", tt.self, tt.environ)
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("PATH", func(t *testing.T) {
		got, err := lookPath("smg-sim", []string{"PATH=:/none:" + filepath.Dir(listed)})
		if diff := cmp.Diff(listed, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}
