package simcmd

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"smg/sim/instant"
	"smg/sim/simgrpc"
	"smg/sim/simhttp"
	"smg/sim/simtext"
)

// defaultPort is the first port of an engine, as in SGLang's examples.
const defaultPort = 31000

// options is the command line as typed, checked.
type options struct {
	engine  simhttp.Config
	instant *instant.Config // nil for the real simulation
	listen  []string        // host:port
	control string          // host:port, "" for none
	events  int             // first port of published KV-cache events, 0 for none
	replay  int             // and of their replay
	level   slog.Level
}

// Flags are those of the simulated engine.
func Flags() []cli.Flag {
	d := simhttp.DefaultConfig()
	i := instant.DefaultConfig()
	const (
		where  = "Where it listens"
		engine = "The engine"
		speed  = "Its speed"
		fast   = "Overhead mode"
	)
	own := []cli.Flag{
		&cli.StringFlag{Category: where, Name: "host", Value: "127.0.0.1", Usage: "`ADDRESS` to listen on"},
		&cli.IntFlag{Category: where, Name: "port", Value: defaultPort, Usage: "first `PORT`; 0 takes a free one for each engine"},
		&cli.IntFlag{Category: where, Name: "engines", Value: 1, Usage: "`NUMBER` of engines, on consecutive ports"},
		&cli.StringSliceFlag{Category: where, Name: "listen", Usage: "`HOST:PORT` of one more engine, instead of --host, --port and --engines; may be repeated or hold several, separated by commas"},
		&cli.IntFlag{Category: where, Name: "control-port", Value: -1, DefaultText: "none", Usage: "`PORT` for the control API of all engines; 0 takes a free one"},
		&cli.StringFlag{Category: where, Name: "log-level", Value: "info", Usage: "`LEVEL` of the log: debug, info, warn or error"},

		&cli.StringFlag{Category: engine, Name: "engine", Value: string(d.Kind), Usage: "protocol to speak: `sglang` or vllm"},
		&cli.BoolFlag{Category: engine, Name: "grpc-mode", Usage: "speak the engine's gRPC protocol in place of HTTP"},
		&cli.BoolFlag{Category: engine, Name: "kv-events", Usage: "tell those who subscribe over gRPC how the prefix cache changes"},
		&cli.StringFlag{Category: engine, Name: "byte-tokenizer", Usage: "have a token for each byte of a prompt, and write that as a tokenizer into `DIR`, for whoever has to make tokens of text"},
		&cli.IntFlag{Category: engine, Name: "kv-events-port", Value: -1, DefaultText: "none", Usage: "first `PORT` to publish on over ZeroMQ how the prefix cache changes, on the engine's address; further engines take the ports that follow"},
		&cli.IntFlag{Category: engine, Name: "kv-events-replay-port", Value: -1, DefaultText: "none", Usage: "first `PORT` to send again on what was published"},
		&cli.StringFlag{Category: engine, Name: "model", Value: d.Model, Usage: "`NAME` of the served model"},
		&cli.StringFlag{Category: engine, Name: "api-key", Usage: "`KEY` that callers must present"},
		&cli.IntFlag{Category: engine, Name: "context-length", Value: d.Core.ContextLength, Usage: "`TOKENS` of prompt and answer together"},
		&cli.IntFlag{Category: engine, Name: "kv-blocks", Value: d.Core.KVBlocks, Usage: "`NUMBER` of KV blocks"},
		&cli.IntFlag{Category: engine, Name: "block-size", Value: d.Core.BlockSize, Usage: "`TOKENS` in a KV block"},
		&cli.IntFlag{Category: engine, Name: "max-running", Value: d.Core.MaxRunning, Usage: "`NUMBER` of sequences computed at the same time"},
		&cli.IntFlag{Category: engine, Name: "max-queue", Value: d.Core.MaxQueue, Usage: "`NUMBER` of sequences that may wait; 0 is no limit"},
		&cli.IntFlag{Category: engine, Name: "answer-min-tokens", Value: d.Lengths.Min, Usage: "`TOKENS` of the shortest natural answer"},
		&cli.IntFlag{Category: engine, Name: "answer-max-tokens", Value: d.Lengths.Max, Usage: "`TOKENS` of the longest natural answer"},
		&cli.BoolFlag{Category: engine, Name: "hide-cached-tokens", Usage: "leave out of usages how much of the prompt was cached, as real engines do unless told otherwise"},
		&cli.IntFlag{Category: engine, Name: "embedding-dimensions", Value: d.EmbeddingDimensions, Usage: "`NUMBER` of values in an embedding"},
		&cli.Int64Flag{Category: engine, Name: "max-body-bytes", Value: d.MaxBodyBytes, Usage: "`BYTES` of the largest request body"},

		&cli.Float64Flag{Category: speed, Name: "time-scale", Value: d.TimeScale, Usage: "`FACTOR` on all times: 1 is real time, 0.1 ten times faster, 0 without waiting"},
		&cli.Float64Flag{Category: speed, Name: "prefill-tps", Value: d.Core.PrefillTokensPerSecond, Usage: "prefill `TOKENS` per second"},
		&cli.IntFlag{Category: speed, Name: "chunk-tokens", Value: d.Core.ChunkTokens, Usage: "`TOKENS` in one iteration; longer prompts are prefilled in chunks"},
		&cli.Float64Flag{Category: speed, Name: "decode-step-ms", Value: milliseconds(d.Core.DecodeStep), Usage: "`MILLISECONDS` of a decode step with one sequence"},
		&cli.Float64Flag{Category: speed, Name: "decode-seq-us", Value: 1000 * milliseconds(d.Core.DecodePerSequence), Usage: "`MICROSECONDS` that each further sequence adds"},

		&cli.BoolFlag{Category: fast, Name: "instant", Usage: "answer everything from memory, to measure what lies in front"},
		&cli.IntFlag{Category: fast, Name: "instant-tokens", Value: i.Tokens, Usage: "`NUMBER` of events in a stream"},
		&cli.Float64Flag{Category: fast, Name: "instant-gap-ms", Value: milliseconds(i.Gap), Usage: "`MILLISECONDS` between them"},
		&cli.IntFlag{Category: fast, Name: "instant-events-per-write", Value: i.EventsPerWrite, Usage: "`NUMBER` of events that leave together"},
	}
	return append(own, disaggFlags()...)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// duration turns a number of units into a Duration, saturating.
func duration(v float64, unit time.Duration) time.Duration {
	const most = float64(24 * time.Hour)
	return time.Duration(max(min(v*float64(unit), most), -1))
}

// read checks the command line and reports every fault at once.
func read(c *cli.Context) (options, error) {
	var o options
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.NArg() > 0 {
		bad("unexpected argument %q: all settings are flags, see --help", c.Args().First())
	}
	if err := o.level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		bad("--log-level must be debug, info, warn or error, not %q", c.String("log-level"))
	}

	o.engine = engineConfig(c)
	if err := disaggConfig(c, &o.engine); err != nil {
		faults = append(faults, err)
	}
	if c.Bool("grpc-mode") {
		o.engine.Front = simgrpc.New
		if c.Bool("instant") {
			bad("--grpc-mode has no meaning with --instant, which speaks HTTP")
		}
		if o.engine.Disagg.EncoderOnly || o.engine.Disagg.ECRole == simhttp.ECProducer {
			bad("--grpc-mode is not for encoders: they speak HTTP")
		}
	}
	if c.Bool("instant") {
		o.instant = &instant.Config{
			OwnedBy: c.String("engine"), Model: c.String("model"),
			Tokens:         c.Int("instant-tokens"),
			Gap:            duration(c.Float64("instant-gap-ms"), time.Millisecond),
			EventsPerWrite: c.Int("instant-events-per-write"),
		}
		faults = append(faults, o.instant.Validate())
	} else {
		faults = append(faults, o.engine.Validate())
	}

	var err error
	if o.listen, err = addresses(c); err != nil {
		faults = append(faults, err)
	}
	for _, p := range []struct {
		flag string
		port *int
	}{{"kv-events-port", &o.events}, {"kv-events-replay-port", &o.replay}} {
		if !c.IsSet(p.flag) {
			continue
		}
		if *p.port = c.Int(p.flag); *p.port < 1 || *p.port+len(o.listen)-1 > 65535 {
			bad("--%s must be between 1 and 65535, with room for all engines, not %d", p.flag, *p.port)
		}
		if c.Bool("instant") {
			bad("--%s has no meaning with --instant, which has no prefix cache", p.flag)
		}
	}
	if o.replay > 0 && o.events == 0 {
		bad("--kv-events-replay-port needs --kv-events-port")
	}
	o.engine.KVEvents = o.engine.KVEvents || o.events > 0
	if port := c.Int("control-port"); c.IsSet("control-port") {
		if port < 0 || port > 65535 {
			bad("--control-port must be between 0 and 65535, not %d", port)
		}
		if c.Bool("instant") {
			bad("--control-port has no meaning with --instant, which has no control API")
		}
		o.control = net.JoinHostPort(c.String("host"), strconv.Itoa(port))
	}
	return o, errors.Join(faults...)
}

func engineConfig(c *cli.Context) simhttp.Config {
	cfg := simhttp.DefaultConfig()
	cfg.Kind = simhttp.Kind(c.String("engine"))
	cfg.Model = c.String("model")
	cfg.APIKey = c.String("api-key")
	cfg.TimeScale = c.Float64("time-scale")
	cfg.HideCached = c.Bool("hide-cached-tokens")
	cfg.KVEvents = c.Bool("kv-events")
	if dir := c.String("byte-tokenizer"); dir != "" {
		cfg.Tokens, cfg.TokenizerPath = simtext.Bytes, dir
	}
	cfg.EmbeddingDimensions = c.Int("embedding-dimensions")
	cfg.MaxBodyBytes = c.Int64("max-body-bytes")
	cfg.Lengths.Min, cfg.Lengths.Max = c.Int("answer-min-tokens"), c.Int("answer-max-tokens")
	cfg.Core.KVBlocks, cfg.Core.BlockSize = c.Int("kv-blocks"), c.Int("block-size")
	cfg.Core.ContextLength = c.Int("context-length")
	cfg.Core.MaxRunning, cfg.Core.MaxQueue = c.Int("max-running"), c.Int("max-queue")
	cfg.Core.ChunkTokens = c.Int("chunk-tokens")
	cfg.Core.PrefillTokensPerSecond = c.Float64("prefill-tps")
	cfg.Core.DecodeStep = duration(c.Float64("decode-step-ms"), time.Millisecond)
	cfg.Core.DecodePerSequence = duration(c.Float64("decode-seq-us"), time.Microsecond)
	return cfg
}

// addresses returns where the engines listen.
func addresses(c *cli.Context) ([]string, error) {
	if c.IsSet("listen") {
		if c.IsSet("port") || c.IsSet("engines") {
			return nil, errors.New("--listen says where each engine listens; leave out --port and --engines")
		}
		list := c.StringSlice("listen")
		for _, addr := range list {
			if _, port, err := net.SplitHostPort(strings.TrimSpace(addr)); err != nil || port == "" {
				return nil, fmt.Errorf("--listen must be HOST:PORT, not %q", addr)
			}
		}
		return list, nil
	}
	port, n := c.Int("port"), c.Int("engines")
	if n < 1 || n > 65535 {
		return nil, fmt.Errorf("--engines must be between 1 and 65535, not %d", n)
	}
	if port < 0 || port > 65535 {
		return nil, fmt.Errorf("--port must be between 0 and 65535, not %d", port)
	}
	if port > 0 && port+n-1 > 65535 {
		return nil, fmt.Errorf("--port %d leaves no room for --engines %d below 65536", port, n)
	}
	list := make([]string, n)
	for i := range list {
		p := port
		if port > 0 {
			p += i
		}
		list[i] = net.JoinHostPort(c.String("host"), strconv.Itoa(p))
	}
	return list, nil
}
