package flags

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/launcher"
)

// TestCLIServe holds what serve refuses before it looks for an engine, and what it
// makes of the flags of engines.
func TestCLIServe(t *testing.T) {
	tests := []struct {
		name, args string
		code       int
		want       []string
	}{
		{"56_trtllm_over_http", "serve --backend trtllm --model m --connection-mode http", 2, []string{"--connection-mode http", "to smg launch"}},
		{"56_trtllm", "serve --backend trtllm --model m", 2, []string{"spoken to over grpc, which is not supported yet", "--backend trtllm"}},
		{"56_sglang_over_zmq", "serve --backend sglang --model m --connection-mode zmq", 2, []string{"--connection-mode zmq", "leave it out: the engines are spoken to over http"}},
		{"56_vllm_over_zmq", "serve --backend vllm --model m --connection-mode zmq", 2, []string{"connection mode zmq is not supported yet"}},
		{"56_unknown_mode", "serve --backend sim --connection-mode tcp", 2, []string{`"tcp" is not a known connection mode`, "http, grpc, zmq"}},
		{"tokenspeed", "serve --backend tokenspeed --model m", 2, []string{"backend tokenspeed is not supported yet", "sglang, vllm"}},
		{"53_no_size", "serve --backend sglang --model m --tensor-parallel-size 0", 2, []string{"--tensor-parallel-size 0", "from 1 to"}},
		{"53_no_size_of_a_leg", "serve --backend vllm --model m --prefill-replicas 1 --decode-replicas 1 --decode-args=-tp~0", 2, []string{"-tp 0"}},
		{"53_gpus_unknown", "serve --backend vllm --model m --engine-gpus some", 2, []string{"auto, none"}},
		{"model_of_vllm", "serve --backend vllm", 2, []string{"--model is required", "a name or a folder"}},
		{"custom_without_command", "serve --backend custom", 2, []string{"--engine-cmd is required", "{port}"}},
		{"command_not_closed", "serve --backend custom --engine-cmd '", 2, []string{"a quote is not closed"}},
		{"command_of_others", "serve --backend sim --engine-cmd x", 2, []string{"--engine-cmd is for --backend custom"}},
		{"python_of_others", "serve --backend sim --engine-python x", 2, []string{"--engine-python is for --backend sglang, vllm, trtllm"}},
		{"bin_of_others", "serve --backend vllm --model m --engine-bin x", 2, []string{"--engine-bin is for --backend llamacpp, sim"}},
		{"71_roles_of_llamacpp", "serve --backend llamacpp --model m --prefill-replicas 1 --decode-replicas 1", 2, []string{"has no prefill/decode roles", "sglang, vllm, sim"}},
		{"71_roles_of_custom", "serve --backend custom --engine-cmd x --prefill-replicas 1 --decode-replicas 1", 2, []string{"custom has no prefill/decode roles"}},
		{"71_kv_backend_without_roles", "serve --backend vllm --model m --kv-backend mooncake", 2, []string{"there are no prefill engines"}},
		{"71_kv_backend_of_sglang", "serve --backend sglang --model m --prefill-replicas 1 --decode-replicas 1 --kv-backend nixl", 2, []string{"--kv-backend is for --backend vllm", "--disaggregation-transfer-backend"}},
		{"71_kv_backend_unknown", "serve --backend vllm --model m --prefill-replicas 1 --decode-replicas 1 --kv-backend x", 2, []string{"nixl, mooncake"}},
		{"71_pd_flag", "serve --backend sim --router-pd-disaggregation", 2, []string{"--router-pd-disaggregation"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := strings.Fields(tt.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "~", " ")
			}
			_, code, text := run(nil, args...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d\n%s", code, tt.code, text)
			}
			for _, w := range tt.want {
				if !strings.Contains(text, w) {
					t.Errorf("answer lacks %q:\n%s", w, text)
				}
			}
		})
	}
	t.Run("53_too_few_gpus", testTooFewGPUs)
	t.Run("54_ports_of_others", testReservedPorts)
	t.Run("60_fallback", testFallback)
	t.Run("flags_that_engines_get_too", testSharedFlags)
	t.Run("flags_of_the_launcher", testEngineFlags)
}

func testTooFewGPUs(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "4,5")
	_, code, text := run(nil, "serve", "--backend", "vllm", "--model", "m", "--dp-size", "2", "--port", "0", "-tp", "2")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if code != 1 || len(lines) != 2 || !strings.Contains(text, "CUDA_VISIBLE_DEVICES=4,5 names 2, engine 1 needs 2") {
		t.Errorf("exit %d, want 1 and a line beside that about the port:\n%s", code, text)
	}
	if _, code, text := run(nil, "serve", "--backend", "vllm", "--model", "m", "--dp-size", "2", "--engine-gpus", "none", "-tp", "2"); code != 0 {
		t.Errorf("exit %d: %s", code, text)
	}
}

func testReservedPorts(t *testing.T) {
	cmd := must(t, nil, "serve", "--backend", "sim", "--port", "31000", "--router-prometheus-port", "31001", "--router-nats-listen", "u:p@127.0.0.1:31003")
	if diff := cmp.Diff([]int{31000, 31001, 31003}, cmd.Serve.Engines.ReservedPorts); diff != "" {
		t.Error(diff)
	}
}

func testEngineFlags(t *testing.T) {
	vars := map[string]string{"SMG_ENGINE_PYTHON": "/venv/bin/python", "SMG_ENGINE_BIN": "/opt/llama-server", "SMG_DEFAULT_BACKEND": "vllm"}
	cmd := must(t, vars, "serve", "--model", "m", "--enable-token-usage-details", "--engine-gpus", "none", "--dry-run", "--tp", "2")
	want := launcher.DefaultConfig()
	want.Backend, want.Model, want.Python, want.EngineBin = "vllm", "m", "/venv/bin/python", "/opt/llama-server"
	want.TokenDetails, want.GPUs, want.EngineArgs, want.ReservedPorts = true, "none", []string{"--tp", "2"}, []int{8080, 29000}
	if diff := cmp.Diff(want, cmd.Serve.Engines); diff != "" {
		t.Error(diff)
	}
	if !cmd.Launch.DryRun || len(cmd.Warnings) != 0 {
		t.Errorf("dry run %v, warnings %q", cmd.Launch.DryRun, cmd.Warnings)
	}
	cmd = must(t, nil, "serve", "--backend", "custom", "--engine-cmd", `run "a b" --port {port}`)
	if diff := cmp.Diff([]string{"run", "a b", "--port", "{port}"}, cmd.Serve.Engines.EngineCmd); diff != "" {
		t.Error(diff)
	}
}

// testFallback has engines and gateway share settings. Most of the gateway's are not
// built yet, so that the rule is tried on a table of its own.
func testFallback(t *testing.T) {
	set := func(*Serve, string) error { return nil }
	table := append(serveTable(),
		Def{Name: "api-key", Kind: Scalar, Secret: true, In: InLaunch | InRouter, set: set},
		Def{Name: "model-path", Aliases: []string{"model"}, Kind: Scalar, In: InLaunch | InRouter, set: set},
		Def{Name: "chat-template", Kind: Scalar, In: InLaunch | InRouter, set: set},
		Def{Name: "reasoning-parser", Kind: Scalar, In: InLaunch | InRouter}, // not built
		Def{Name: "log-level", Kind: Scalar, In: InLaunch | InRouter, set: set},
	)
	tests := []struct{ name, args, want string }{
		{"engine flags", "--model m --api-key K --chat-template=c --log-level debug", "--api-key=K --chat-template=c --model-path=m"},
		{"own flags come first", "--model m --api-key K --router-api-key J --router-model x", "--api-key=J --model-path=x"},
		{"switched off", "--model m --api-key K --router-disable-arg-fallback", ""},
		{"not switched off", "--api-key K --router-disable-arg-fallback=false", "--api-key=K"},
		{"the last counts", "--api-key K -- --api_key L", "--api-key=L"},
		{"empty is none", "--api-key= --model=", ""},
		{"not built", "--reasoning-parser r --tokenizer-path t", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSet(nameServe, table)
			line, err := rewrite(s, strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			before := strings.Join(line.engineArgs, " ")
			fallback(s, &line)
			var got []string
			for _, g := range line.flags {
				if name, ok := strings.CutPrefix(g.name, routerPrefix); ok && g.name != noFallbackFlag {
					got = append(got, "--"+name+"="+g.value)
				}
				if strings.Contains(g.where, "K") {
					t.Errorf("messages would show the key: %q", g.where)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
			if after := strings.Join(line.engineArgs, " "); after != before {
				t.Errorf("the engines get %q", after)
			}
			if len(line.warnings) != 0 {
				t.Errorf("warnings %q", line.warnings)
			}
		})
	}
}

// testSharedFlags has no warning for what engines get by right.
func testSharedFlags(t *testing.T) {
	cmd := must(t, nil, "serve", "--backend", "sglang", "--model", "m", "--tp-size", "2", "--pp-size", "1", "--api-key", "K", "--chat-template", "c")
	if len(cmd.Warnings) != 0 {
		t.Errorf("warnings %q", cmd.Warnings)
	}
	want := []string{"--tp-size", "2", "--pp-size", "1", "--api-key", "K", "--chat-template", "c"}
	if diff := cmp.Diff(want, cmd.Serve.Engines.EngineArgs); diff != "" {
		t.Error(diff)
	}
	if s := cmd.Serve; s.Engines.Backend != "sglang" || s.ConnectionMode != "http" {
		t.Errorf("%s over %s", s.Engines.Backend, s.ConnectionMode)
	}
}
