package flags

import (
	"math"
	"time"

	"smg/launcher"
)

// serveTable defines serve's own flags.
func serveTable() []Def {
	return []Def{
		{
			Name: "backend", Kind: Scalar, Value: "NAME", Default: "sglang", Env: []string{"SMG_DEFAULT_BACKEND"}, Group: groupEngines, In: InServe, Everyday: true,
			Help: "Kind of engine: sglang, vllm, llamacpp, custom (see --engine-cmd) or sim (simulated).",
			set:  setBackend,
		},
		{
			Name: "model", Aliases: []string{"model-path"}, Kind: Scalar, Value: "MODEL", Group: groupEngines, In: InServe, Everyday: true,
			Help: "Model of the engines: a name or a folder, a GGUF file for llamacpp; optional for custom and sim.",
			set:  setText(func(s *Serve) *string { return &s.Engines.Model }),
		},
		{
			Name: "data-parallel-size", Aliases: []string{"dp-size"}, Kind: Scalar, Value: "N", Default: "1", Group: groupEngines, In: InServe, Everyday: true,
			Help: "Number of engines, each a worker of its own.",
			set:  setNumber(func(s *Serve) *int { return &s.Engines.Replicas }, 1, maxEngines),
		},
		{
			Name: "tensor-parallel-size", Aliases: []string{"tp-size", "tp"}, Kind: Scalar, Value: "N", Default: "1", Group: groupEngines, In: InServe, Observed: true,
			Help: "GPUs of each engine, which gets the flag as it is typed.",
		},
		{
			Name: "prefill-replicas", Kind: Scalar, Value: "N", Group: groupEngines, In: InServe, Everyday: true,
			Help: "Number of prefill engines, instead of engines that do everything.",
			set:  setNumber(func(s *Serve) *int { return &s.Engines.Prefill }, 1, maxEngines),
		},
		{
			Name: "decode-replicas", Kind: Scalar, Value: "N", Group: groupEngines, In: InServe, Everyday: true,
			Help: "Number of decode engines, which prefill engines need.",
			set:  setNumber(func(s *Serve) *int { return &s.Engines.Decode }, 1, maxEngines),
		},
		{
			Name: "encode-replicas", Kind: Scalar, Value: "N", Group: groupEngines, In: InServe,
			Help: "Number of encode engines for images and other media.",
			set:  setNumber(func(s *Serve) *int { return &s.Engines.Encode }, 1, maxEngines),
		},
		{
			Name: "prefill-args", Kind: Scalar, Value: "ARGS", Dashed: true, Group: groupEngines, In: InServe,
			Help: "More engine flags for prefill engines, in quotes.",
			set:  setWords(func(s *Serve) *[]string { return &s.Engines.PrefillArgs }),
		},
		{
			Name: "decode-args", Kind: Scalar, Value: "ARGS", Dashed: true, Group: groupEngines, In: InServe,
			Help: "More engine flags for decode engines, in quotes.",
			set:  setWords(func(s *Serve) *[]string { return &s.Engines.DecodeArgs }),
		},
		{
			Name: "encode-args", Kind: Scalar, Value: "ARGS", Dashed: true, Group: groupEngines, In: InServe,
			Help: "More engine flags for encode engines, in quotes.",
			set:  setWords(func(s *Serve) *[]string { return &s.Engines.EncodeArgs }),
		},
		{
			Name: "bootstrap-base-port", Kind: Scalar, Value: "PORT", Default: "8998", Group: groupEngines, In: InServe,
			Help: "First port tried for the meetings of prefill and decode engines.",
			set:  setNumber(func(s *Serve) *int { return &s.Engines.BootstrapBasePort }, 1, maxPort),
		},
		{
			Name: "kv-backend", Kind: Scalar, Value: "NAME", Default: launcher.KVNIXL, Group: groupEngines, In: InServe,
			Help: "How vLLM's prefill engines hand KV to decode engines: nixl or mooncake.",
			set:  setEnum(func(s *Serve) *string { return &s.Engines.KVBackend }, "way of handing KV over", launcher.KVBackends()),
		},
		{
			Name: "enable-token-usage-details", Kind: Bool, Group: groupEngines, In: InServe,
			Help: "Have sglang and vllm say in their answers how much of a prompt they had cached.",
			set:  setBool(func(s *Serve) *bool { return &s.Engines.TokenDetails }),
		},
		{
			Name: "connection-mode", Kind: Scalar, Value: "MODE", Default: launcher.ModeHTTP, Group: groupEngines, In: InServe,
			Help: "How the gateway speaks to the engines: http.",
			set:  setEnum(func(s *Serve) *string { return &s.ConnectionMode }, "connection mode", []string{launcher.ModeHTTP, launcher.ModeGRPC, launcher.ModeZMQ}),
		},
		{
			Name: "worker-host", Kind: Scalar, Value: "HOST", Default: "127.0.0.1", Group: groupEngines, In: InServe,
			Help: "Address that the engines listen on.",
			set:  setText(func(s *Serve) *string { return &s.Engines.Host }),
		},
		{
			Name: "worker-base-port", Kind: Scalar, Value: "PORT", Default: "31000", Group: groupEngines, In: InServe, Everyday: true,
			Help: "First port tried for the engines.",
			set:  setNumber(func(s *Serve) *int { return &s.Engines.BasePort }, 1, maxPort),
		},
		{
			Name: "worker-stop-timeout", Kind: Scalar, Value: "SECS", Default: "30", Group: groupEngines, In: InServe,
			Help: "How long engines get to stop before they are killed.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Engines.StopTimeout }, 1),
		},
		{
			Name: "worker-startup-timeout", Kind: Scalar, Value: "SECS", Default: "300", Group: groupEngines, In: InServe, Everyday: true,
			Help: "How long all engines together may take to load.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Engines.StartupTimeout }, 1),
		},
		{
			Name: "engine-python", Kind: Scalar, Value: "PATH", Env: []string{"SMG_ENGINE_PYTHON"}, Group: groupEngines, In: InServe, Everyday: true,
			Help: "Python that runs sglang and vllm (python3 on PATH).",
			set:  setText(func(s *Serve) *string { return &s.Engines.Python }),
		},
		{
			Name: "engine-cmd", Kind: Scalar, Value: "COMMAND", Group: groupEngines, In: InServe,
			Help: "Command of --backend custom, in quotes; {model}, {host}, {port}, {rank} and {tp} in it are filled in.",
			set:  setWords(func(s *Serve) *[]string { return &s.Engines.EngineCmd }),
		},
		{
			Name: "engine-gpus", Kind: Scalar, Value: "HOW", Default: launcher.GPUsAuto, Group: groupEngines, In: InServe,
			Help: "auto: each engine sees GPUs of its own, as many as its --tensor-parallel-size says; none: all see the same.",
			set:  setEnum(func(s *Serve) *string { return &s.Engines.GPUs }, "way to assign GPUs", launcher.GPUModes()),
		},
		{
			Name: "engine-bin", Kind: Scalar, Value: "PATH", Env: []string{"SMG_ENGINE_BIN"}, Group: groupEngines, In: InServe,
			Help: "Program of llamacpp or sim (llama-server on PATH).",
			set:  setText(func(s *Serve) *string { return &s.Engines.EngineBin }),
		},
		{
			Name: "engine-log", Kind: Scalar, Value: "HOW", Default: string(launcher.LogPrefix), Group: groupEngines, In: InServe,
			Help: "Engine output: prefix (marked lines), raw, or file (engine-N.log in the working directory).",
			set:  setLogMode,
		},
		{
			Name: "router-disable-arg-fallback", Kind: Bool, Group: groupEngines, In: InServe,
			Help: "Do not have the gateway use engine flags such as --api-key where its own is missing.",
			set:  setBool(func(*Serve) *bool { return new(bool) }),
		},
		{
			Name: "host", Kind: Scalar, Value: "HOST", Default: "127.0.0.1", Group: groupAddress, In: InServe, Everyday: true,
			Help: "Address that the API listens on.",
			set:  setText(func(s *Serve) *string { return &s.Host }),
		},
		{
			Name: "port", Kind: Scalar, Value: "PORT", Default: "8080", Group: groupAddress, In: InServe, Everyday: true,
			Help: "Port of the API.",
			set:  setNumber(func(s *Serve) *int { return &s.Port }, 0, math.MaxUint16),
		},
	}
}

// maxEngines is a limit against slips of the finger.
const maxEngines = 4096

// knownBackends are the names that a user may try; launcher.Backends are those with a
// command line.
func knownBackends() []string { return append(launcher.Backends(), "tokenspeed", "mlx") }
