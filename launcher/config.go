package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
)

// LogMode says what becomes of the engines' output.
type LogMode string

// The three ways to treat engine output.
const (
	// LogPrefix writes every line with the engine's name in front: "[engine N] ", or
	// its role, "[prefill N] ".
	LogPrefix LogMode = "prefix"
	// LogRaw lets the engines write to the launcher's output themselves.
	LogRaw LogMode = "raw"
	// LogFile writes engine N's lines to LogDir/engine-N.log, or prefill-N.log.
	LogFile LogMode = "file"
)

// LogModes returns the legal values of [Config.Log].
func LogModes() []LogMode { return []LogMode{LogPrefix, LogRaw, LogFile} }

// Config describes one launch. Start from [DefaultConfig]: a zero duration is a
// duration of zero, not a request for the default.
type Config struct {
	// Backend names the kind of engine, one of [Backends].
	Backend string
	// Mode is how the gateway speaks to the engines: [ModeHTTP], [ModeGRPC] or [ModeZMQ].
	Mode string
	// Model is handed to the engine under its own flag. Simulated engines and the user's
	// own command start without one.
	Model string
	// Replicas is how many engines are started if none has a role.
	Replicas int
	// Encode, Prefill and Decode are how many engines are started for each part of a
	// request. Any of them replaces Replicas.
	Encode, Prefill, Decode int
	// Host is the address that engines bind and that their URLs carry.
	Host string
	// BasePort is the first port tried, ReservedPorts are never given away.
	BasePort      int
	ReservedPorts []int
	// BootstrapBasePort is the first port tried for the meetings of prefill and decode
	// engines, which the first prefill engine gets if it is free.
	BootstrapBasePort int

	// KVBackend is how vLLM's prefill engines hand KV over, one of [KVBackends], and
	// MediaDir the folder where its encoders leave embeddings. It must exist.
	KVBackend string
	MediaDir  string
	// GPUs says whether engines get GPUs of their own, one of [GPUModes].
	GPUs string
	// TokenDetails has the engines say how much of a prompt they had cached.
	TokenDetails bool

	// EngineBin replaces the backend's own program. Empty means that the program is
	// looked for under its usual name.
	EngineBin string
	// Python runs the engines that are Python modules; empty is python3 on PATH.
	Python string
	// EngineCmd is the command of [BackendCustom], in words. In them {model}, {host},
	// {port}, {rank} and {tp} stand for what the launcher knows.
	EngineCmd []string
	// EngineArgs are handed through in order, without the flags that the launcher
	// sets itself.
	EngineArgs []string
	// EncodeArgs, PrefillArgs and DecodeArgs follow EngineArgs for engines in one role.
	EncodeArgs, PrefillArgs, DecodeArgs []string
	// Environ is the environment of the engines before the launcher's additions; the
	// search for programs reads SMG_BIN_DIR and PATH from it.
	Environ []string

	// StartupTimeout bounds the wait for all engines together.
	StartupTimeout time.Duration
	// ProbeInterval is the longest pause between two health probes of an engine, whose
	// first ones follow each other faster, and ProbeTimeout the limit of one.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	// LoadingInterval is the pause between two progress lines of a loading engine.
	LoadingInterval time.Duration
	// StopTimeout is what all engines together get between SIGTERM and SIGKILL, and
	// ReapTimeout what they get after SIGKILL.
	StopTimeout time.Duration
	ReapTimeout time.Duration
	// Watchdog is a program and its arguments that ends the engines if this process is
	// killed: it gets StopTimeout as one more argument and the pipe for [Watch] as
	// descriptor 3. Empty means that there is none.
	Watchdog []string

	// Log says where engine output goes, LogDir where the files of LogFile lie.
	Log    LogMode
	LogDir string
	// Color colours prefixes by rank. JSON turns engine lines and progress into one
	// JSON object a line.
	Color bool
	JSON  bool
}

// DefaultConfig is one engine on 127.0.0.1:31000 with the process's own
// environment. Backend and, for most of them, Model are left to the caller.
func DefaultConfig() Config {
	return Config{
		Mode:              ModeHTTP,
		Replicas:          1,
		KVBackend:         KVNIXL,
		GPUs:              GPUsAuto,
		Host:              "127.0.0.1",
		BasePort:          31000,
		BootstrapBasePort: 8998,
		Environ:           os.Environ(),
		StartupTimeout:    300 * time.Second,
		ProbeInterval:     time.Second,
		ProbeTimeout:      5 * time.Second,
		LoadingInterval:   10 * time.Second,
		StopTimeout:       30 * time.Second,
		ReapTimeout:       5 * time.Second,
		Log:               LogPrefix,
		LogDir:            ".",
	}
}

// Validate reports every fault of c, each named by the flag that sets it.
func (c Config) Validate() error {
	var faults *multierror.Error
	add := func(format string, args ...any) {
		faults = multierror.Append(faults, fmt.Errorf(format, args...))
	}
	b, err := c.backend()
	if err != nil {
		faults = multierror.Append(faults, err)
	}
	if b.needsModel && c.Model == "" {
		add("--model is required with --backend %s", c.Backend)
	}
	if c.Backend == BackendCustom && len(c.EngineCmd) == 0 {
		add("--engine-cmd is required with --backend %s", c.Backend)
	}
	addLaunch := func(err error) {
		if e, ok := errors.AsType[*LaunchError](err); ok {
			add("%s: %w", strings.Join(e.detail, ", "), e)
		}
	}
	addLaunch(c.CheckMode())
	addLaunch(c.CheckSizes())
	if c.Backend == BackendVLLM && c.Encode > 0 && c.MediaDir == "" {
		add("--encode-replicas %d: there is no folder for embeddings", c.Encode)
	}
	if !slices.Contains(KVBackends(), c.KVBackend) {
		add("--kv-backend %s: must be one of %s", c.KVBackend, strings.Join(KVBackends(), ", "))
	}
	if !slices.Contains(GPUModes(), c.GPUs) {
		add("--engine-gpus %s: must be one of %s", c.GPUs, strings.Join(GPUModes(), ", "))
	}
	switch {
	case c.HasRoles():
		c.checkRoles(add)
	case c.Replicas < 1:
		add("--data-parallel-size %d: must be at least 1", c.Replicas)
	}
	if c.Host == "" {
		add("--worker-host: must not be empty")
	}
	if c.BasePort < 1 || c.BasePort > maxPort {
		add("--worker-base-port %d: must be 1..%d", c.BasePort, maxPort)
	}
	if c.StartupTimeout <= 0 {
		add("--worker-startup-timeout %s: must be more than 0", c.StartupTimeout)
	}
	if !slices.Contains(LogModes(), c.Log) {
		add("--engine-log %s: must be one of %s", c.Log, joinNames(LogModes()))
	}
	if c.Log == LogRaw && c.JSON {
		add("--engine-log raw: engines that write themselves do not write JSON")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"probe interval", c.ProbeInterval},
		{"probe timeout", c.ProbeTimeout},
		{"loading interval", c.LoadingInterval},
		{"stop timeout", c.StopTimeout},
		{"reap timeout", c.ReapTimeout},
	} {
		if d.value <= 0 {
			add("%s %s: must be more than 0", d.name, d.value)
		}
	}
	return faults.ErrorOrNil()
}

func joinNames[S ~string](names []S) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	return strings.Join(out, ", ")
}
