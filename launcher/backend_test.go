//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// TestCLIBackends holds the rules about engines that need none to run.
func TestCLIBackends(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"55_command_lines":             testCommandLines,
		"56_trtllm":                    testTensorRT,
		"56_modes":                     testModes,
		"57_owned_flags_in_other_ways": testOwnedSpellings,
		"53_assignment":                testAssignment,
		"53_sizes":                     testSizes,
		"61_handshake_ports":           testHandshakes,
		"71_roles_of_real_engines":     testRealRoles,
		"71_what_users_say_of_roles":   testMerged,
		"plan":                         testPlan,
		"inherited":                    testInherited,
	} {
		t.Run(name, test)
	}
}

// engineConfig is a configuration of one engine.
func engineConfig(backend, mode, args string) Config {
	cfg := DefaultConfig()
	cfg.Backend, cfg.Mode, cfg.Model = backend, mode, "M"
	cfg.EngineArgs = strings.Fields(args)
	cfg.Environ = []string{"SMG_ZMQ_SOCKET_DIR=/tmp/smg-zmq"}
	return cfg
}

// commandOf is what the first engine of cfg is started with.
func commandOf(t *testing.T, cfg Config) string {
	t.Helper()
	argv, err := cfg.CommandLine("PY", Place{Port: 31000})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(argv, " ")
}

func testCommandLines(t *testing.T) {
	const at = " --host 127.0.0.1 --port 31000"
	tests := []struct {
		backend, mode string
		details       bool
		args, want    string
	}{
		{"sglang", "http", false, "--trust-remote-code", "PY -m sglang.launch_server --model-path M" + at + " --trust-remote-code"},
		{"sglang", "http", true, "--tp 2", "PY -m sglang.launch_server --model-path M" + at + " --enable-cache-report --tp 2"},
		{"sglang", "grpc", true, "--tp 2", "PY -m sglang.launch_server --model-path M" + at + " --grpc-mode --tp 2"},
		{"vllm", "http", false, "-tp 2", "PY -m vllm.entrypoints.openai.api_server --model M" + at + " -tp 2"},
		{"vllm", "http", true, "--uds /x --x", "PY -m vllm.entrypoints.openai.api_server --model M" + at + " --enable-prompt-tokens-details --x"},
		{"vllm", "grpc", true, "--x y", "PY -m vllm.entrypoints.grpc_server --model M" + at + " --x y"},
		{
			"vllm", "zmq", false, "--data-parallel-size 2 --x",
			"PY -m vllm.entrypoints.cli.main serve M --headless --data-parallel-size 2 --data-parallel-size-local 2 --data-parallel-address 127.0.0.1 --data-parallel-rpc-port 22714 --x",
		},
		{"vllm", "zmq", false, "--data-parallel-size=many", "PY -m vllm.entrypoints.cli.main serve M --headless --data-parallel-size 1 --data-parallel-size-local 1 --data-parallel-address 127.0.0.1 --data-parallel-rpc-port 22714"},
		{"llamacpp", "http", true, "-m other --ctx-size 4096", "PY --model M" + at + " --metrics --ctx-size 4096"},
		{"sim", "http", true, "--time-scale 0", "PY" + at + " --model M --time-scale 0"},
	}
	for _, tt := range tests {
		t.Run(tt.backend+"_"+tt.mode, func(t *testing.T) {
			cfg := engineConfig(tt.backend, tt.mode, tt.args)
			cfg.TokenDetails = tt.details
			if diff := cmp.Diff(tt.want, commandOf(t, cfg)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("custom", func(t *testing.T) {
		cfg := engineConfig("custom", "http", "--x y")
		cfg.EngineCmd = []string{"run me", "-m", "{model}", "{host}:{port}", `{"rank":{rank}}`, "{other}"}
		if diff := cmp.Diff(`PY -m M 127.0.0.1:31000 {"rank":0} {other} --x y`, commandOf(t, cfg)); diff != "" {
			t.Error(diff)
		}
		cfg.EngineCmd, cfg.EngineArgs = []string{"run", "{tp}"}, strings.Fields("--tp-size 1 --x -tp 4 --tensor_parallel_size=2")
		if diff := cmp.Diff("PY 2 --x", commandOf(t, cfg)); diff != "" {
			t.Error("a size that the command places itself is not given twice:", diff)
		}
	})
}

func testTensorRT(t *testing.T) {
	cfg := engineConfig("trtllm", "grpc", "--tensor-parallel-size 2 --foo-bar=a-b --model-path x --port=1 --x-y z-z")
	want := "PY -m tensorrt_llm.commands.serve M --grpc --host 127.0.0.1 --port 31000 --tensor_parallel_size 2 --foo_bar=a-b --x_y z-z"
	if diff := cmp.Diff(want, commandOf(t, cfg)); diff != "" {
		t.Error(diff)
	}
	cfg.Replicas = 2
	if diff := cmp.Diff("0,1 2,3", gpusOfAll(t, cfg)); diff != "" {
		t.Error(diff)
	}

	dir := t.TempDir()
	for content, want := range map[string]string{
		"tensor_parallel_size: 4\n":                                "0,1,2,3",
		"# a comment\nx:\n  tp_size: 9\n- y\ntp_size: \"2\" # c\n": "0,1",
		"tp_size: 3\ntensor_parallel_size: 2\n":                    "0,1",
		"other: 1\n":                                               "0",
		"tp_size: two\n":                                           "an engine cannot have that size",
		"no member\n":                                              "has a line that is no member",
	} {
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := engineConfig("trtllm", "grpc", "--config "+file)
		if got := gpusOfAll(t, cfg); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
	}
	if got := gpusOfAll(t, engineConfig("trtllm", "grpc", "--config "+dir+"/none")); !strings.Contains(got, "cannot be read") {
		t.Error(got)
	}
	if got := gpusOfAll(t, engineConfig("trtllm", "grpc", "--config x --tensor-parallel-size 4 --tp_size=2")); got != "0,1" {
		t.Errorf("%s: --tp_size comes first", got)
	}
}

func testModes(t *testing.T) {
	tests := []struct{ backend, mode, what, hint string }{
		{"sglang", "http", "", ""},
		{"sglang", "grpc", "connection mode grpc is not supported yet", "over http"},
		{"sglang", "zmq", "sglang is not spoken to over zmq", "leave it out: the engines are spoken to over http"},
		{"vllm", "http", "", ""},
		{"vllm", "zmq", "connection mode zmq is not supported yet", "over http"},
		{"trtllm", "http", "trtllm is not spoken to over http", "give the address of its HTTP server to smg launch"},
		{"trtllm", "grpc", "trtllm is spoken to over grpc, which is not supported yet", "smg launch"},
		{"llamacpp", "grpc", "llamacpp is not spoken to over grpc", "leave it out"},
		{"custom", "http", "", ""},
		{"sim", "grpc", "sim is not spoken to over grpc", "leave it out"},
	}
	for _, tt := range tests {
		err := engineConfig(tt.backend, tt.mode, "").CheckMode()
		if tt.what == "" {
			if err != nil {
				t.Errorf("%s over %s: %v", tt.backend, tt.mode, err)
			}
			continue
		}
		if got := report(err); !strings.Contains(got, tt.what) || !strings.Contains(got, tt.hint) {
			t.Errorf("%s over %s: %s", tt.backend, tt.mode, got)
		}
	}
	for backend, want := range map[string]string{"sglang": "http", "vllm": "http", "trtllm": "grpc", "sim": "http", "mlx": "http"} {
		if got := DefaultMode(backend); got != want {
			t.Errorf("%s: %s, want %s", backend, got, want)
		}
	}
}

// testOwnedSpellings has users give the launcher's own flags in the ways that the
// engines understand as well.
func testOwnedSpellings(t *testing.T) {
	tests := []struct{ name, backend, args, rest, dropped string }{
		{"underscores of vllm", "vllm", "--served_model_name n --model=x --MODEL y", "--served_model_name n --MODEL y", "--model"},
		{"beginnings", "vllm", "--por 1 --hos=x --mode y --po 2 --model-impl z", "--po 2 --model-impl z", "--por --hos --mode"},
		{"beginnings of sglang", "sglang", "--model-pat x --port_ 1 --host-x 2", "--port_ 1 --host-x 2", "--model-pat"},
		{"no beginnings in llamacpp", "llamacpp", "--por 1", "--por 1", ""},
		{"no underscores in sglang", "sglang", "--model_path x", "--model_path x", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := engineConfig(tt.backend, "http", tt.args)
			b, err := cfg.backend()
			if err != nil {
				t.Fatal(err)
			}
			rest, _ := cfg.rest(b, nil, Place{})
			if diff := cmp.Diff(tt.rest, strings.Join(rest, " ")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.dropped, strings.Join(cfg.Dropped(), " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("in roles", func(t *testing.T) {
		cfg := engineConfig("vllm", "http", "--kv_transfer_config {} --kv-transfer={} --ec-transfer-config.x 1 --kv-cache-dtype fp8")
		cfg.Prefill, cfg.Decode = 1, 1
		if diff := cmp.Diff("--kv-transfer", strings.Join(cfg.Dropped(), " ")); diff != "" {
			t.Error("what is taken over is not lost, what is not is:", diff)
		}
		cfg = engineConfig("sglang", "http", "--encoder-urls http://a http://b --x --disaggregation-mode=decode --disaggregation-ib-device mlx5_0")
		cfg.Prefill, cfg.Decode = 1, 1
		argv, err := cfg.CommandLine("PY", Place{Role: worker.Decode, Port: 1})
		if got := strings.Join(argv, " "); err != nil || !strings.HasSuffix(got, "--port 1 --disaggregation-mode decode --x --disaggregation-ib-device mlx5_0") {
			t.Error(got, err)
		}
	})
}

// gpusOfAll are the GPUs of each engine, or what is wrong.
func gpusOfAll(t *testing.T, cfg Config) string {
	t.Helper()
	places := cfg.line()
	if err := cfg.assignGPUs(places); err != nil {
		return report(err)
	}
	var all []string
	for _, p := range places {
		all = append(all, strings.Join(p.GPUs, ","))
	}
	return strings.Join(all, " ")
}

func testAssignment(t *testing.T) {
	tests := []struct {
		name, backend, pool, args string
		engines                   int
		want                      string
	}{
		{"unset", "custom", "-", "--tensor-parallel-size 2", 2, "0,1 2,3"},
		{"empty", "custom", "", "--tensor-parallel-size 2", 2, "0,1 2,3"},
		{"blanks and commas are empty too", "custom", " , ,", "--tp 2", 2, "0,1 2,3"},
		{"third of four each", "custom", "-", "--tp-size=4", 3, "0,1,2,3 4,5,6,7 8,9,10,11"},
		{"pool", "custom", "4,5,6,7", "--tensor-parallel-size 2", 2, "4,5 6,7"},
		{"names", "sglang", " GPU-a, MIG-b/1/0 ,,GPU-c", "", 3, "GPU-a MIG-b/1/0 GPU-c"},
		{"pool too small", "custom", "4,5", "--tensor-parallel-size 2", 2, "engine 1 needs 2: number 2 to 3"},
		{"names the pool", "vllm", "4,5", "-tp 4", 1, "CUDA_VISIBLE_DEVICES=4,5 names 2"},
		{"pipeline", "vllm", "-", "-tp 2 --pipeline_parallel_size 2", 2, "0,1,2,3 4,5,6,7"},
		{"ranks of vllm", "vllm", "-", "--data-parallel-size 2 -tp 2", 2, "0,1,2,3 4,5,6,7"},
		{"local ranks of vllm", "vllm", "-", "--data-parallel-size 8 --data-parallel-size-local 2", 2, "0,1 2,3"},
		{"ranks of sglang", "sglang", "-", "--dp-size 2 --tp 2", 2, "0,1,2,3 4,5,6,7"},
		{"attention ranks share", "sglang", "-", "--dp-size 2 --tp 2 --enable-dp-attention", 2, "0,1 2,3"},
		{"sim has none", "sim", "1", "--tp 2", 2, " "},
		{"llamacpp has none", "llamacpp", "1", "", 2, " "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := engineConfig(tt.backend, "http", tt.args)
			cfg.Replicas = tt.engines
			cfg.Environ = []string{"CUDA_VISIBLE_DEVICES=9", "CUDA_VISIBLE_DEVICES=" + tt.pool}
			if tt.pool == "-" {
				cfg.Environ = nil
			}
			if got := gpusOfAll(t, cfg); got != tt.want && (!strings.Contains(tt.want, " needs ") && !strings.Contains(tt.want, " names ") || !strings.Contains(got, tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			cfg.GPUs = GPUsNone
			if got := strings.TrimSpace(gpusOfAll(t, cfg)); got != "" {
				t.Errorf("--engine-gpus none: %q", got)
			}
		})
	}
	t.Run("roles in the order of ports", func(t *testing.T) {
		cfg := engineConfig("vllm", "http", "-tp 2")
		cfg.Encode, cfg.Prefill, cfg.Decode = 1, 2, 1
		cfg.EncodeArgs, cfg.DecodeArgs = []string{"-tp=1"}, []string{"-tp", "4"}
		if diff := cmp.Diff("0 1,2 3,4 5,6,7,8", gpusOfAll(t, cfg)); diff != "" {
			t.Error(diff)
		}
	})
}

func testSizes(t *testing.T) {
	for _, args := range []string{"--tensor-parallel-size 0", "--tp -1", "-tp=x", "--pp-size 0", "--tp_size 99999999"} {
		if got := report(engineConfig("vllm", "http", args).CheckSizes()); !strings.Contains(got, strings.Replace(args, "=", " ", 1)) || !strings.Contains(got, "from 1 to") {
			t.Errorf("%s: %s", args, got)
		}
	}
	for _, args := range []string{"", "--tp 0 --tp 1", "--tp", "--data-parallel-size zero"} {
		if err := engineConfig("vllm", "http", args).CheckSizes(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	for name, want := range map[string]bool{"tp": true, "tp-size": true, "pp-size": true, "dp": false, "model": false} {
		if SizesEngines(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func testHandshakes(t *testing.T) {
	for path, want := range map[string]int{
		"/tmp/smg-zmq/ts0.ipc": 25152, "/tmp/smg-zmq/ts1.ipc": 22735, "/tmp/smg-zmq/engine-31000": 22714, "ts0.ipc": 23912,
	} {
		if got := handshakePort(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	cfg := engineConfig("vllm", "zmq", "")
	byPort := map[int]int{}
	for port := 31000; ; port++ {
		h := handshakePort(cfg.socket(port))
		other, ok := byPort[h]
		if !ok {
			byPort[h] = port
			continue
		}
		err := cfg.checkHandshakes([]Place{{Port: other}, {Port: port}})
		for _, want := range []string{"at the same port", cfg.url(other), cfg.url(port), "--worker-base-port"} {
			if !strings.Contains(report(err), want) {
				t.Errorf("report lacks %q:\n%s", want, report(err))
			}
		}
		break
	}
	if err := cfg.checkHandshakes([]Place{{Port: 1}, {Port: 2}}); err != nil {
		t.Error(err)
	}
	if got := cfg.url(31000); got != "ipc:///tmp/smg-zmq/engine-31000" {
		t.Error(got)
	}
	cfg.Mode = ModeGRPC
	if got := cfg.url(31000); got != "grpc://127.0.0.1:31000" {
		t.Error(got)
	}
}

// testRealRoles reads the command lines of engines in roles, all of which a person
// would otherwise type.
func testRealRoles(t *testing.T) {
	const (
		sglang = "PY -m sglang.launch_server --model-path M --host 127.0.0.1 --port "
		vllm   = "PY -m vllm.entrypoints.openai.api_server --model M --host 127.0.0.1 --port "
		nixl   = ` --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_`
		moon   = ` --kv-transfer-config {"kv_connector":"MooncakeConnector","kv_role":"kv_`
		media  = ` --ec-transfer-config {"ec_connector":"ECExampleConnector","ec_role":"ec_`
		folder = `","ec_connector_extra_config":{"shared_storage_path":"/media \"x\""}}`
	)
	tests := []struct {
		name, backend, kv, args string
		encode                  int
		want                    []string
		env                     []string
	}{
		{"sglang", "sglang", "nixl", "--x", 0, []string{
			sglang + "31000 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998 --x",
			sglang + "31003 --disaggregation-mode prefill --disaggregation-bootstrap-port 8999 --x",
			sglang + "31006 --disaggregation-mode decode --x",
		}, []string{"0", "1", "2"}},
		{"sglang with encoders", "sglang", "nixl", "", 2, []string{
			sglang + "31000 --encoder-only",
			sglang + "31003 --encoder-only",
			sglang + "31006 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998 --language-only --encoder-urls http://127.0.0.1:31000 http://127.0.0.1:31003",
			sglang + "31009 --disaggregation-mode prefill --disaggregation-bootstrap-port 8999 --language-only --encoder-urls http://127.0.0.1:31000 http://127.0.0.1:31003",
			sglang + "31012 --disaggregation-mode decode",
		}, []string{"0", "1", "2", "3", "4"}},
		{"vllm", "vllm", "nixl", "--x", 0, []string{
			vllm + "31000" + nixl + `producer"} --x`, vllm + "31003" + nixl + `producer"} --x`, vllm + "31006" + nixl + `consumer"} --x`,
		}, []string{"0 VLLM_NIXL_SIDE_CHANNEL_PORT=5600", "1 VLLM_NIXL_SIDE_CHANNEL_PORT=5601", "2 VLLM_NIXL_SIDE_CHANNEL_PORT=5602"}},
		{"ranks of vllm take neighbouring ports", "vllm", "nixl", "--data-parallel-size 2", 0, []string{
			vllm + "31000" + nixl + `producer"} --data-parallel-size 2`, vllm + "31003" + nixl + `producer"} --data-parallel-size 2`,
			vllm + "31006" + nixl + `consumer"} --data-parallel-size 2`,
		}, []string{"0,1 VLLM_NIXL_SIDE_CHANNEL_PORT=5600", "2,3 VLLM_NIXL_SIDE_CHANNEL_PORT=5602", "4,5 VLLM_NIXL_SIDE_CHANNEL_PORT=5604"}},
		{"vllm with mooncake", "vllm", "mooncake", "", 0, []string{
			vllm + "31000" + moon + `producer","engine_id":"prefill-0"}`, vllm + "31003" + moon + `producer","engine_id":"prefill-1"}`, vllm + "31006" + moon + `consumer"}`,
		}, []string{"0 VLLM_MOONCAKE_BOOTSTRAP_PORT=8998", "1 VLLM_MOONCAKE_BOOTSTRAP_PORT=8999", "2"}},
		{"vllm with encoders", "vllm", "nixl", "", 1, []string{
			vllm + "31000" + media + "producer" + folder,
			vllm + "31003" + nixl + `producer"}` + media + "consumer" + folder,
			vllm + "31006" + nixl + `producer"}` + media + "consumer" + folder,
			vllm + "31009" + nixl + `consumer"}`,
		}, []string{"0", "1 VLLM_NIXL_SIDE_CHANNEL_PORT=5600", "2 VLLM_NIXL_SIDE_CHANNEL_PORT=5601", "3 VLLM_NIXL_SIDE_CHANNEL_PORT=5602"}},
		{"sim with mooncake is like vllm", "sim", "mooncake", "", 0, []string{
			"PY --host 127.0.0.1 --port 31000 --model M --engine vllm" + moon + `producer","engine_id":"prefill-0"}`,
			"PY --host 127.0.0.1 --port 31003 --model M --engine vllm" + moon + `producer","engine_id":"prefill-1"}`,
			"PY --host 127.0.0.1 --port 31006 --model M --engine vllm" + moon + `consumer"}`,
		}, []string{"VLLM_MOONCAKE_BOOTSTRAP_PORT=8998", "VLLM_MOONCAKE_BOOTSTRAP_PORT=8999", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := engineConfig(tt.backend, "http", tt.args)
			cfg.Encode, cfg.Prefill, cfg.Decode, cfg.KVBackend, cfg.MediaDir = tt.encode, 2, 1, tt.kv, `/media "x"`
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			b, err := cfg.backend()
			if err != nil {
				t.Fatal(err)
			}
			share, err := cfg.sharing(b)
			if err != nil {
				t.Fatal(err)
			}
			places, err := cfg.places(share, func(string, int) (bool, error) { return true, nil })
			if err != nil {
				t.Fatal(err)
			}
			var got, env []string
			for i, p := range places {
				argv, err := cfg.CommandLine("PY", p)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.Join(argv, " "))
				all := cfg.additions(p)
				if want := []string{"PYTHONUNBUFFERED=1", fmt.Sprintf("SMG_WORKER_RANK=%d", i), fmt.Sprintf("SMG_WORKER_PORT=%d", p.Port)}; !slices.Equal(all[:3], want) {
					t.Errorf("environment %q", all)
				}
				env = append(env, strings.TrimPrefix(strings.Join(all[3:], " "), "CUDA_VISIBLE_DEVICES="))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.env, env); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// testMerged has users say more of how KV is handed over than the launcher does.
func testMerged(t *testing.T) {
	cfg := engineConfig("vllm", "http", `--x --kv_transfer_config={"kv_connector_extra_config":{"b":[1,2]},"kv_role":"kv_both","a":null} --y`)
	cfg.Prefill, cfg.Decode = 1, 1
	cfg.DecodeArgs = []string{"--kv-transfer-config", `{"kv_load_failure_policy": "recompute"}`}
	for role, want := range map[worker.Leg]string{
		worker.Prefill: `--kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_producer","a":null,"kv_connector_extra_config":{"b":[1,2]}} --x --y`,
		worker.Decode:  `--kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_consumer","kv_load_failure_policy":"recompute"} --x --y`,
	} {
		argv, err := cfg.CommandLine("PY", Place{Role: role, Port: 1})
		if _, got, _ := strings.Cut(strings.Join(argv, " "), "--port 1 "); err != nil || got != want {
			t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
		}
	}
	cfg.Encode, cfg.MediaDir = 1, "/m"
	cfg.EncodeArgs = []string{"--ec-transfer-config", `{"ec_ip":"x"}`}
	argv, err := cfg.CommandLine("PY", Place{Role: worker.Encode, Port: 1})
	want := `{"ec_connector":"ECExampleConnector","ec_role":"ec_producer","ec_connector_extra_config":{"shared_storage_path":"/m"},"ec_ip":"x"}`
	if err != nil || !slices.Contains(argv, want) {
		t.Error(argv, err)
	}

	for args, want := range map[string]string{
		`--kv-transfer-config {`:                                       "no JSON object",
		`--ec-transfer-config []`:                                      "no JSON object",
		`--kv-transfer-config {"kv_connector":"LMCacheConnectorV1"}`:   `kv_connector "LMCacheConnectorV1" in --kv-transfer-config, and --kv-backend nixl`,
		`--kv-transfer-config {"kv_connector":"NixlConnector","x":{}}`: "<nil>",
	} {
		cfg := engineConfig("vllm", "http", args)
		cfg.Prefill, cfg.Decode = 1, 1
		if got := report(cfg.CheckRoles()); !strings.Contains(got, want) {
			t.Errorf("%s: %s", args, got)
		}
	}
}

func testPlan(t *testing.T) {
	cfg := engineConfig("sglang", "http", "--api-key SECRET --hf_token=SECRET --x 'a b'")
	cfg.Environ, cfg.Replicas, cfg.ReservedPorts = []string{"PATH=/none"}, 2, []int{31003}
	plan, err := cfg.Plan()
	if err != nil {
		t.Fatal(report(err))
	}
	last := plan[1]
	want := Planned{
		Endpoint: Endpoint{Rank: 1, URL: "http://127.0.0.1:31004", Port: 31004}, Name: "engine 1",
		Command: `python3 -m sglang.launch_server --model-path M --host 127.0.0.1 --port 31004 --api-key '***' '--hf_token=***' --x ''\''a' 'b'\'''`,
		Environ: []string{"PYTHONUNBUFFERED=1", "SMG_WORKER_RANK=1", "SMG_WORKER_PORT=31004", "CUDA_VISIBLE_DEVICES=1"},
	}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Error(diff)
	}
	cfg.Backend, cfg.EngineBin = "llamacpp", "./mine"
	if plan, err = cfg.Plan(); err != nil || !strings.HasPrefix(plan[0].Command, "./mine --model M ") {
		t.Error(plan, err)
	}
	cfg.Backend, cfg.EngineCmd = "custom", []string{"run"}
	if plan, err = cfg.Plan(); err != nil || !strings.HasPrefix(plan[0].Command, "run --api-key") {
		t.Error(plan, err)
	}
	cfg.Backend = "mlx"
	if _, err := cfg.Plan(); !errors.Is(err, ErrBackend) {
		t.Error(err)
	}
	if got := cfg.Dropped(); got != nil {
		t.Error(got)
	}
}

// testInherited holds what the gateway is told away from the engines.
func testInherited(t *testing.T) {
	environ := []string{
		"PATH=/bin", "SMG_NATS_URL=nats://u:p@h", "SMG_FLAG_API_KEY=k", "SMG_FLAG_PORT=1", "SMG_API_KEY=k", "SMG_CLUSTER_SECRET=s",
		"SMG_BIN_DIR=/opt", "SMG_WORKER_RANK=7", "SMG_FLAGS=x", "HF_TOKEN=t",
	}
	want := []string{"PATH=/bin", "SMG_BIN_DIR=/opt", "SMG_WORKER_RANK=7", "SMG_FLAGS=x", "HF_TOKEN=t"}
	if diff := cmp.Diff(want, inherited(environ)); diff != "" {
		t.Error(diff)
	}
	if len(environ) != 10 || environ[1] != "SMG_NATS_URL=nats://u:p@h" {
		t.Errorf("the caller's own was changed: %q", environ)
	}
}
