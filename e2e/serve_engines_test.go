package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"smg/sim/simctl"
)

// TestCLIServeEngines starts engines other than the simulated one by its name. What
// stands in for SGLang and vLLM is an interpreter that takes their command lines, and
// has simulated engines do the work.
func TestCLIServeEngines(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"53_gpus":                    gpusOfEngines,
		"53_too_few_gpus":            tooFewGPUs,
		"55_sglang":                  func(t *testing.T) { servesAs(t, "sglang") },
		"55_vllm":                    func(t *testing.T) { servesAs(t, "vllm") },
		"70_sglang_is_not_installed": notInstalled,
		"71_legs_of_sim":             legsOfSim,
		"71_legs_of_sglang":          func(t *testing.T) { sharesAs(t, "sglang", roles{prefill: 2, decode: 1}) },
		"71_legs_of_vllm":            func(t *testing.T) { sharesAs(t, "vllm", roles{prefill: 2, decode: 1}) },
		"71_legs_of_vllm_mooncake":   func(t *testing.T) { sharesAs(t, "vllm", roles{prefill: 2, decode: 1}, "--kv-backend", "mooncake") },
		"71_encoders_of_sglang":      func(t *testing.T) { sharesAs(t, "sglang", roles{encode: 2, prefill: 1, decode: 1}) },
		"71_encoders_of_vllm":        func(t *testing.T) { sharesAs(t, "vllm", roles{encode: 1, prefill: 1, decode: 1}) },
	})
}

// printing starts two engines that tell their environment and are never ready.
func printing(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	all := append([]string{
		"serve", "--backend", "custom", "--engine-cmd", `sh -c "env; exec sleep 600"`, "--data-parallel-size", "2",
		"--worker-base-port", strconv.Itoa(block(t, 20)),
	}, gatewayArgs(t, "router-")...)
	return startWith(t, env, "smg", append(all, args...)...)
}

func gpusOfEngines(t *testing.T) {
	for _, c := range []struct{ env, first, second string }{
		{"NONE=", "0,1", "2,3"},
		{"CUDA_VISIBLE_DEVICES=", "0,1", "2,3"},
		{"CUDA_VISIBLE_DEVICES=4,5,6,7", "4,5", "6,7"},
	} {
		p := printing(t, []string{c.env, "SMG_API_KEY=secret", "SMG_FLAG_REQUEST_TIMEOUT_SECS=9"}, "--tensor-parallel-size", "2")
		for i, gpus := range []string{c.first, c.second} {
			p.says(fmt.Sprintf(`^\[engine %d\] CUDA_VISIBLE_DEVICES=%s$`, i, gpus))
			p.says(fmt.Sprintf(`^\[engine %d\] PYTHONUNBUFFERED=1$`, i))
			p.says(fmt.Sprintf(`^\[engine %d\] SMG_WORKER_RANK=%d$`, i, i))
		}
		p.silent(`^\[engine \d\] (SMG_API_KEY|SMG_FLAG)`)
		p.signal(syscall.SIGTERM)
		p.ends(143)
	}
	p := printing(t, []string{"CUDA_VISIBLE_DEVICES=7"}, "--engine-gpus", "none", "--tensor-parallel-size", "2")
	p.says(`^\[engine 1\] CUDA_VISIBLE_DEVICES=7$`)
	p.signal(syscall.SIGTERM)
	p.ends(143)
}

func tooFewGPUs(t *testing.T) {
	p := printing(t, []string{"CUDA_VISIBLE_DEVICES=4,5"}, "--tensor-parallel-size", "2")
	p.ends(1)
	p.says("^error: there are not enough GPUs for the engines$")
	p.says("CUDA_VISIBLE_DEVICES=4,5 names 2, engine 1 needs 2: number 2 to 3 of them")
	p.silent("^engine 0")

	p = printing(t, nil, "--tensor-parallel-size", "0")
	p.ends(2)
	p.says("--tensor-parallel-size 0")
	p.silent("^engine 0")
}

func notInstalled(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("this machine has no Python")
	}
	args := append([]string{"serve", "--backend", "sglang", "--model", "m", "--worker-base-port", strconv.Itoa(block(t, 5))}, gatewayArgs(t, "router-")...)
	// Without its packages, if it has any.
	p := startWith(t, []string{"SMG_ENGINE_PYTHON=" + python, "PYTHONNOUSERSITE=1"}, "smg", args...)
	p.ends(1)
	p.says("^error: engine 0 ended during start-up: exit code 1$")
	p.says("^  command: .*python3 -m sglang.launch_server --model-path m --host 127.0.0.1 --port ")
	p.says("No module named")
	p.says("^  hint: .*--engine-python")
}

// interpreter stands in for a Python that has SGLang or vLLM. The simulated engine
// refuses flags that it does not know.
func interpreter(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	text := `#!/bin/sh
case "$1 $2" in
"-m sglang.launch_server") kind=sglang model=--model-path ;;
"-m vllm.entrypoints.openai.api_server") kind=vllm model=--model ;;
*) echo "No module named $2" >&2; exit 1 ;;
esac
shift 2
echo "args $*"
echo "gpus $CUDA_VISIBLE_DEVICES"
n=$#
while [ $n -gt 0 ]; do
	a=$1; shift; n=$((n-1))
	[ "$a" = "$model" ] && a=--model
	set -- "$@" "$a"
done
exec ` + program("smg-sim") + ` --engine $kind --time-scale 0 "$@"
`
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return path
}

func servesAs(t *testing.T, backend string) {
	base := block(t, 10)
	args := append([]string{
		"serve", "--backend", backend, "--model", "sim", "--engine-python", interpreter(t), "--dp-size", "2", "--worker-base-port", strconv.Itoa(base),
		"--router-policy", "round_robin", "--context-length", "4096",
	}, gatewayArgs(t, "router-")...)
	p := start(t, "smg", args...)
	url := p.says(`^api +(http://\S+)`)[1]
	model := map[string]string{"sglang": "--model-path", "vllm": "--model"}[backend]
	for i := range 2 {
		p.says(fmt.Sprintf(`^\[engine %d\] args %s sim --host 127\.0\.0\.1 --port %d --context-length 4096$`, i, model, base+3*i))
		p.says(fmt.Sprintf(`^\[engine %d\] gpus %d$`, i, i))
	}
	if a, b := askChat(t, url), askChat(t, url); a == b {
		t.Errorf("both requests went to %s", a)
	}
	if s := get(t, url+"/workers"); !strings.Contains(s, backend) {
		t.Errorf("the gateway does not know what they are: %s", s)
	}
	p.stop(143)
}

func legsOfSim(t *testing.T) {
	for _, port := range []string{"8998", "8999"} {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Skip("port " + port + " is not free on this machine")
		}
		_ = l.Close()
	}
	args := append([]string{
		"serve", "--backend", "sim", "--prefill-replicas", "2", "--decode-replicas", "2", "--worker-base-port", strconv.Itoa(block(t, 20)),
		"--router-prefill-policy", "bucket", "--router-decode-policy", "power_of_two",
	}, gatewayArgs(t, "router-")...)
	p := start(t, "smg", append(args, "--", "--time-scale", "0")...)
	p.says(`^prefill 0 +pid \d+ +port \d+ +bootstrap 8998`)
	p.says(`^prefill 1 +pid \d+ +port \d+ +bootstrap 8999`)
	url := p.says(`^api +(http://\S+) +policy prefill bucket, decode power_of_two`)[1]
	p.says("^try: ")
	if text, err := ask(t.Context(), url+"/v1/completions", fmt.Sprintf(questions[1].body, "")); err != nil || text == "" {
		t.Errorf("%q, %v", text, err)
	}
	p.stop(143)

	p = start(t, "smg", serveArgs(t, 1, "--router-pd-disaggregation")...)
	p.ends(2)
}

// sharesAs has engines share requests that are told their parts in the flags of a
// real one.
// sideChannels is held by whoever starts vLLM's legs: two at a time would look for the
// same free ports, from 5600 on.
var sideChannels sync.Mutex

func sharesAs(t *testing.T, backend string, r roles, args ...string) {
	if backend == "vllm" {
		sideChannels.Lock()
		t.Cleanup(sideChannels.Unlock)
	}
	all := []string{
		"serve", "--backend", backend, "--model", "sim", "--engine-python", interpreter(t),
		"--prefill-replicas", strconv.Itoa(r.prefill), "--decode-replicas", strconv.Itoa(r.decode),
		"--worker-base-port", strconv.Itoa(block(t, 20)), "--bootstrap-base-port", strconv.Itoa(block(t, 10)),
	}
	question := questions[0]
	if r.encode > 0 {
		all, question = append(all, "--encode-replicas", strconv.Itoa(r.encode)), questions[2]
	}
	p := start(t, "smg", append(append(all, gatewayArgs(t, "router-")...), args...)...)
	url := p.says(`^api +(http://\S+)`)[1]
	p.says("^try: ")
	for range 3 {
		if text, err := ask(t.Context(), url+question.path, fmt.Sprintf(question.body, "")); err != nil || text == "" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	sum := func(role string, n int) (all simctl.Transfers) {
		for i := range n {
			at := p.says(fmt.Sprintf(`^%s %d +pid \d+ +port (\d+)`, role, i))[1]
			tr, err := simctl.NewClient("http://127.0.0.1:"+at, nil).Transfers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all.Sent, all.Received, all.Recomputed = all.Sent+tr.Sent, all.Received+tr.Received, all.Recomputed+tr.Recomputed
			all.Encoded, all.EmbeddingHits, all.EmbeddingMisses = all.Encoded+tr.Encoded, all.EmbeddingHits+tr.EmbeddingHits, all.EmbeddingMisses+tr.EmbeddingMisses
		}
		return all
	}
	prefill, decode := sum("prefill", r.prefill), sum("decode", r.decode)
	if prefill.Sent != 3 || decode.Received != 3 || decode.Recomputed != 0 {
		t.Errorf("prefill %+v, decode %+v: want three prompts handed over", prefill, decode)
	}
	if r.encode > 0 {
		encode := sum("encode", r.encode)
		if encode.Encoded == 0 || prefill.EmbeddingHits == 0 || prefill.EmbeddingMisses != 0 {
			t.Errorf("encode %+v, prefill %+v: want embeddings handed over", encode, prefill)
		}
	}
	p.stop(143)
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "smg-embeddings-*")); err != nil || backend == "vllm" && r.encode > 0 && len(left) > 0 {
		t.Errorf("folders are left: %q, %v", left, err)
	}
}

// TestCLIDryRunOfServe has smg say what it would start, on a machine where it could
// start nothing.
func TestCLIDryRunOfServe(t *testing.T) {
	parallel(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	p := startWith(t, []string{"PATH=/none", "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b"}, "smg", "serve", "--dry-run", "--model", "M", "--port", taken,
		"--dp-size", "2", "--trust-remote-code", "--api-key", "secret-of-engines", "--router-policy", "round_robin")
	p.ends(0)
	for i, want := range []string{
		"python3 -m sglang.launch_server --model-path M --host 127.0.0.1 --port 31000 --trust-remote-code --api-key '***'",
		"CUDA_VISIBLE_DEVICES=GPU-b", "regular", "round_robin", "http://127.0.0.1:31003",
	} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("line %d: output lacks %q:\n%s", i, want, p.out.String())
		}
	}
	if all := p.out.String() + p.stderr(); strings.Contains(all, "secret-of-engines") {
		t.Errorf("a key is shown:\n%s", all)
	}
}
