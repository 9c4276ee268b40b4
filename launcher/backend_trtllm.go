package launcher

import (
	"strconv"
	"strings"
)

// trtllm is TensorRT-LLM, run by an interpreter that has it. It speaks gRPC only.
func (c Config) trtllm() backend {
	return backend{
		python:     true,
		needsModel: true,
		gpus:       true,
		modes:      []string{ModeGRPC},
		owned:      ownedFlags{names: []string{"--model", "--model_path", "--host", "--port"}},
		argv: func(p Place) []string {
			return []string{"-m", "tensorrt_llm.commands.serve", c.Model, "--grpc", "--host", c.Host, "--port", strconv.Itoa(p.Port)}
		},
		spell: underscored,
	}
}

// underscored writes the names of flags with "_" for "-"; values stay as they are.
func underscored(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		name, ok := strings.CutPrefix(a, "--")
		if !ok {
			out[i] = a
			continue
		}
		key, value, hasValue := strings.Cut(name, "=")
		out[i] = "--" + strings.ReplaceAll(key, "-", "_")
		if hasValue {
			out[i] += "=" + value
		}
	}
	return out
}
