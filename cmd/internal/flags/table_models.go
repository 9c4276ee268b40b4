package flags

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"smg/launcher"
)

// Models is which models are served, and by which names, and how their workers leave.
type Models struct {
	// DrainSettle is how long a worker that is removed has for its requests before it
	// leaves, 0 is not at all. RemoveUnhealthy has one removed that stays unhealthy.
	DrainSettle     time.Duration
	RemoveUnhealthy bool
	// Aliases are other names of models, in the order given.
	Aliases []ModelAlias
	// Backend is the kind of engines that do not say theirs, AutoBackend for none.
	Backend   string
	Tokenizer Tokenizer
}

// AutoBackend leaves it to the engines to say what they are.
const AutoBackend = "auto"

// Tokenizer is how prompts become tokens. Nothing reads it: engines that speak HTTP do
// that themselves.
type Tokenizer struct {
	Model        string // name or folder of the model, whose tokenizer it is
	Path         string // instead of the model's own
	ChatTemplate string
	NoAutoload   bool // no tokenizer is loaded for models that workers bring
}

// ModelAlias is another name of a model.
type ModelAlias struct{ Name, Model string }

// setAlias reads alias=model.
func setAlias(s *Serve, v string) error {
	name, model, ok := strings.Cut(v, "=")
	if !ok || name == "" || model == "" || name == model {
		return fmt.Errorf("%q is not ALIAS=MODEL, two names that differ, such as gpt-4o=llama-3", v)
	}
	s.Models.Aliases = append(s.Models.Aliases, ModelAlias{name, model})
	return nil
}

// modelTable defines the flags of [Models], and that of a fleet that comes and goes.
func modelTable() []Def {
	return []Def{
		{
			Name: "enable-igw", Kind: Bool, Group: groupPolicy, In: serving,
			Help: "Serve each model as its workers can, regular or prefill and decode; workers come and go, and fewer than the policy needs are enough to start.",
			set:  setBool(func(s *Serve) *bool { return &s.EnableIGW }),
		},
		{
			Name: "model-alias", Kind: Repeated, Value: "ALIAS=MODEL", Group: groupWorkers, In: serving,
			Help:  "Another name that requests may call a model by; the names that workers bring come first. May be given several times.",
			set:   setAlias,
			clear: func(s *Serve) { s.Models.Aliases = nil },
		},
		{
			Name: "backend", Aliases: []string{"runtime"}, Kind: Scalar, Value: "NAME", Default: AutoBackend, Group: groupWorkers, In: serving,
			Help: "Kind of the engines that do not say theirs: auto, sglang, vllm, llamacpp or sim.",
			set:  setEngines,
		},
		{
			Name: "drain-settle-secs", Kind: Scalar, Value: "SECS", Default: "5", Group: groupWorkers, In: serving,
			Help: "How long a worker that is removed is kept, without new requests, for those that it has; 0 removes it at once.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Models.DrainSettle }, 0),
		},
		{
			Name: "remove-unhealthy-workers", Aliases: []string{"worker-auto-recovery"}, Kind: Bool, Group: groupHealth, In: serving,
			Help: "Remove a worker whose probes go on to fail; POST /workers adds it again.",
			set:  setBool(func(s *Serve) *bool { return &s.Models.RemoveUnhealthy }),
		},
		{
			Name: "model-path", Aliases: []string{"model"}, Kind: Scalar, Value: "MODEL", Group: groupModels, In: serving,
			Help: "Model of the engines, a name or a folder, for its tokenizer; not used with engines that speak HTTP.",
			set:  setText(func(s *Serve) *string { return &s.Models.Tokenizer.Model }),
		},
		{
			Name: "tokenizer-path", Kind: Scalar, Value: "PATH", Group: groupModels, In: serving,
			Help: "Tokenizer, if it is not in the folder of the model; not used with engines that speak HTTP.",
			set:  setText(func(s *Serve) *string { return &s.Models.Tokenizer.Path }),
		},
		{
			Name: "chat-template", Kind: Scalar, Value: "FILE", Group: groupModels, In: serving,
			Help: "How messages become a prompt; not used with engines that speak HTTP.",
			set:  setText(func(s *Serve) *string { return &s.Models.Tokenizer.ChatTemplate }),
		},
		{
			Name: "disable-tokenizer-autoload", Kind: Bool, Group: groupModels, In: serving,
			Help: "Load no tokenizer for models that workers bring; not used with engines that speak HTTP.",
			set:  setBool(func(s *Serve) *bool { return &s.Models.Tokenizer.NoAutoload }),
		},
	}
}

// setEngines takes the kind of engines.
func setEngines(s *Serve, v string) error {
	kinds := []string{AutoBackend, launcher.BackendSGLang, launcher.BackendVLLM, launcher.BackendLlamaCPP, launcher.BackendSim}
	if slices.Contains([]string{launcher.BackendTRTLLM, "tokenspeed", "openai", "anthropic", "gemini"}, v) {
		return noChoice(kinds, "%s is not supported yet", v)
	}
	return setEnum(func(s *Serve) *string { return &s.Models.Backend }, "kind of engine", kinds)(s, v)
}

// unusedNotices say which flags are kept and not used, but not those of a child, whose
// parent has said it.
func unusedNotices(s *set, line *rewritten) (notices []string) {
	for _, name := range []string{"model-path", "tokenizer-path", "chat-template", "disable-tokenizer-autoload"} {
		if e := s.lookup(s.prefixed(name)); e != nil && line.has(e.name) {
			notices = append(notices, "--"+e.name+" is not used: engines that speak HTTP make tokens of prompts themselves")
		}
	}
	return notices
}
