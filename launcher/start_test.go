//go:build linux

package launcher

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStartFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	broken := filepath.Join(dir, "broken")
	for path, mode := range map[string]os.FileMode{plain: 0o644, broken: 0o755} {
		if err := os.WriteFile(path, []byte("no program"), mode); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"program missing", func(c *Config) { c.EngineBin = dir + "/none" }, []string{"not found", "--engine-bin " + dir + "/none: no such file"}},
		{"program not executable", func(c *Config) { c.EngineBin = plain }, []string{"not an executable file"}},
		{"program broken", func(c *Config) { c.EngineBin = broken }, []string{"starting engine 0", "exec format error", "command: " + broken}},
		{"not on PATH", func(c *Config) { c.EngineBin, c.Environ = "", []string{"PATH=" + dir} }, []string{"llama-server is not on PATH", "--engine-bin"}},
		{"sim missing", func(c *Config) {
			c.Backend, c.EngineBin, c.Environ = BackendSim, "", []string{"PATH=" + dir}
		}, []string{"smg-sim is neither beside this program", "SMG_BIN_DIR"}},
		{"python missing", func(c *Config) { c.Backend, c.Python = BackendVLLM, dir+"/none" }, []string{"the Python of --backend vllm was not found", "--engine-python " + dir + "/none: no such file"}},
		{"no python on PATH", func(c *Config) { c.Backend, c.Environ = BackendSGLang, []string{"PATH=" + dir} }, []string{"python3 is not on PATH", "--engine-python"}},
		{"command missing", func(c *Config) { c.Backend, c.EngineCmd = BackendCustom, []string{dir + "/none", "x"} }, []string{"--engine-cmd " + dir + "/none: no such file"}},
		{"GPUs missing", func(c *Config) {
			c.Backend, c.EngineCmd, c.Environ = BackendCustom, []string{os.Args[0]}, []string{"CUDA_VISIBLE_DEVICES=3"}
		}, []string{"not enough GPUs", "CUDA_VISIBLE_DEVICES=3 names 1", "engine 1 needs 1: number 1 to 1"}},
		{"model missing", func(c *Config) { c.Model = dir + "/none" }, []string{"--model " + dir + "/none: no such file", "GGUF"}},
		{"foreign host", func(c *Config) { c.Host = "192.0.2.1" }, []string{"--worker-host 192.0.2.1: ", "cannot assign requested address"}},
		{"no ports", func(c *Config) { c.BasePort, c.Replicas = 65530, 10 }, []string{"could not find 10 ports from 65530", "--worker-base-port 65530"}},
		{"no log folder", func(c *Config) { c.Log, c.LogDir = LogFile, dir+"/none" }, []string{"opening the log of engine 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(2, "hang")
			tt.change(&cfg)
			g, err := New(cfg, &buffer{}, discardLog())
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Start()
			if err == nil {
				t.Fatal("started")
			}
			for _, want := range tt.want {
				if !strings.Contains(report(err), want) {
					t.Errorf("report lacks %q:\n%s", want, report(err))
				}
			}
		})
	}
}

func testPorts(t *testing.T) {
	busy := func(ports ...int) func(string, int) (bool, error) {
		return func(_ string, port int) (bool, error) {
			return !slices.Contains(ports, port), nil
		}
	}
	tests := []struct {
		name     string
		n, base  int
		reserved []int
		free     func(string, int) (bool, error)
		want     []int
	}{
		{"steps of three", 3, 31000, nil, busy(), []int{31000, 31003, 31006}},
		{"first busy", 2, 31000, nil, busy(31000), []int{31001, 31004}},
		{"second busy", 2, 31000, nil, busy(31003, 31004), []int{31000, 31005}},
		{"reserved", 2, 31000, []int{31000, 31004}, busy(), []int{31001, 31005}},
		{"last port of all", 2, 65532, nil, busy(), []int{65532, 65535}},
		{"one too many", 10, 65530, nil, busy(), nil},
		{"all busy", 1, 65534, nil, busy(65534, 65535), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := portSearch{base: tt.base, step: portStep, width: 1, host: "127.0.0.1", reserved: tt.reserved}.pick(tt.n, tt.free)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if tt.want == nil && !strings.Contains(fmt.Sprint(err), fmt.Sprintf("could not find %d ports from %d", tt.n, tt.base)) {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("neighbours", func(t *testing.T) {
		got, err := portSearch{base: 5600, step: 4, width: 4, host: "127.0.0.1", reserved: []int{5609}}.pick(3, busy(5602))
		if diff := cmp.Diff([]int{5603, 5610, 5614}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if got, err := (portSearch{base: 65530, step: 4, width: 4}).pick(2, busy()); err == nil {
			t.Errorf("got %v", got)
		}
	})
	t.Run("really busy", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		port := l.Addr().(*net.TCPAddr).Port
		for _, host := range []string{"127.0.0.1", "0.0.0.0", "localhost"} {
			if ok, err := portFree(host, port); ok || err != nil {
				t.Errorf("%s: free %v, error %v", host, ok, err)
			}
		}
	})
}
