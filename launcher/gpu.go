package launcher

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"smg/worker"
)

// How engines get GPUs.
const (
	// GPUsAuto gives each engine its own, by CUDA_VISIBLE_DEVICES.
	GPUsAuto = "auto"
	// GPUsNone leaves that variable as it is.
	GPUsNone = "none"
)

// GPUModes returns the legal values of [Config.GPUs].
func GPUModes() []string { return []string{GPUsAuto, GPUsNone} }

// visibleDevices is the variable that says which GPUs a process sees.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// The flags that say over how many GPUs an engine spreads: tensor and pipeline
// parallelism, and data parallelism inside an engine.
func tensorFlags() []string   { return []string{"--tensor-parallel-size", "--tp-size", "--tp"} }
func pipelineFlags() []string { return []string{"--pipeline-parallel-size", "--pp-size", "--pp"} }
func rankFlags() []string     { return []string{"--data-parallel-size", "--dp-size", "--dp"} }

// SizesEngines says whether an engine's flag, without dashes, is read by the launcher
// too, which hands it on.
func SizesEngines(name string) bool {
	return slices.Contains(slices.Concat(tensorFlags(), pipelineFlags()), canonicalFlag(name))
}

// CheckSizes judges what the user says of the size of engines. Its error is a
// [LaunchError].
func (c Config) CheckSizes() error {
	for _, role := range startOrder() {
		if c.Count(role) == 0 {
			continue
		}
		if _, err := c.tensorSize(role); err != nil {
			return err
		}
		if _, err := c.gpusOf(role); err != nil {
			return err
		}
	}
	return nil
}

// CheckGPUs says whether there are GPUs for all engines. Its error is a [LaunchError].
func (c Config) CheckGPUs() error { return c.assignGPUs(c.line()) }

// assignGPUs gives every place its GPUs: those of CUDA_VISIBLE_DEVICES in order, or,
// where that says nothing, numbers from 0.
func (c Config) assignGPUs(places []Place) error {
	b, err := c.backend()
	if err != nil || !b.gpus || c.GPUs == GPUsNone {
		return err
	}
	pool := deviceList(envValue(c.Environ, visibleDevices))
	next := 0
	for i := range places {
		n, err := c.gpusOf(places[i].Role)
		if err != nil {
			return err
		}
		if len(pool) == 0 {
			for g := next; g < next+n; g++ {
				places[i].GPUs = append(places[i].GPUs, strconv.Itoa(g))
			}
			next += n
			continue
		}
		if next+n > len(pool) {
			return &LaunchError{
				what: "there are not enough GPUs for the engines",
				detail: []string{
					fmt.Sprintf("%s=%s names %d", visibleDevices, strings.Join(pool, ","), len(pool)),
					fmt.Sprintf("%s needs %d: number %d to %d of them, counted from 0", places[i].Name(), n, next, next+n-1),
				},
				hint: "start fewer or smaller engines, name more GPUs, or give --engine-gpus none to engines that share them",
			}
		}
		places[i].GPUs = slices.Clone(pool[next : next+n])
		next += n
	}
	return nil
}

// deviceList takes the variable apart. Items are whatever the driver understands:
// numbers, UUIDs, MIG ids.
func deviceList(value string) []string {
	var out []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// gpusOf is how many GPUs an engine of a role takes.
func (c Config) gpusOf(role worker.Leg) (int, error) {
	b, err := c.backend()
	if err != nil || !b.gpus {
		return 0, err
	}
	tensor, err := c.tensorSize(role)
	if err != nil {
		return 0, err
	}
	pipeline, err := sizeArg(c.argsOf(role), pipelineFlags()...)
	if err != nil {
		return 0, err
	}
	ranks := 1
	if c.Backend == BackendVLLM || c.Backend == BackendSGLang && !hasFlag(c.argsOf(role), "--enable-dp-attention") {
		ranks = c.engineRanks(role) // attention ranks share the GPUs of the tensors
	}
	return tensor * pipeline * ranks, nil
}

// tensorSize is over how many GPUs each layer of an engine is spread.
func (c Config) tensorSize(role worker.Leg) (int, error) {
	args := c.argsOf(role)
	if c.Backend != BackendTRTLLM {
		return sizeArg(args, tensorFlags()...)
	}
	for _, name := range []string{"--tp-size", "--tensor-parallel-size"} {
		if _, ok := lastValue(args, name); ok {
			return sizeArg(args, name)
		}
	}
	if file, ok := lastValue(args, "--config"); ok {
		return sizeOfFile(file)
	}
	return 1, nil
}

// engineRanks is the data parallelism inside an engine. What is no number is left to
// the engine.
func (c Config) engineRanks(role worker.Leg) int {
	value, ok := lastValue(c.argsOf(role), "--data-parallel-size-local")
	if !ok || c.Backend != BackendVLLM {
		value, _ = lastValue(c.argsOf(role), rankFlags()...)
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return 1
	}
	return min(max(n, 1), maxEngineRanks)
}

// maxEngineRanks is a limit against slips of the finger.
const maxEngineRanks = 1024

// sizeArg is the number that args give a flag, 1 if they do not.
func sizeArg(args []string, names ...string) (int, error) {
	typed, value, ok := lastFlag(args, names...)
	if !ok {
		return 1, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxEngineRanks {
		return 0, &LaunchError{
			what:   "an engine cannot have that size",
			detail: []string{typed + " " + value},
			hint:   fmt.Sprintf("give a number from 1 to %d", maxEngineRanks),
		}
	}
	return n, nil
}

// sizeOfFile reads the size from TensorRT-LLM's configuration, a YAML file. Only the
// top level matters, a line for each member.
func sizeOfFile(path string) (int, error) {
	bad := func(what string) error {
		return &LaunchError{what: what, detail: []string{"--config " + path}, hint: "give the file as tensor_parallel_size: N, or the flag --tp_size N"}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, bad("the engine's configuration cannot be read: " + err.Error())
	}
	found := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, " #")
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || strings.ContainsAny(line[:1], " \t#-}]") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return 0, bad(fmt.Sprintf("the engine's configuration has a line that is no member: %q", line))
		}
		found[strings.Trim(key, `"' `)] = strings.Trim(value, `"' `)
	}
	for _, key := range []string{"tensor_parallel_size", "tp_size"} {
		if value, ok := found[key]; ok {
			return sizeArg([]string{"--" + key + "=" + value}, canonicalFlag(key))
		}
	}
	return 1, nil
}
