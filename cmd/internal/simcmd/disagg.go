package simcmd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"smg/sim/simhttp"
)

// disaggFlags are the flags of engines that share the work of requests. Those
// that real engines have are named as theirs.
func disaggFlags() []cli.Flag {
	d, core := simhttp.DefaultConfig().Disagg, simhttp.DefaultConfig().Core
	const (
		among = "Its part among other engines"
		media = "Media"
	)
	return []cli.Flag{
		&cli.StringFlag{Category: among, Name: "disaggregation-mode", Value: string(d.Mode), Usage: "sglang: `null`, prefill or decode"},
		&cli.IntFlag{Category: among, Name: "disaggregation-bootstrap-port", Value: d.BootstrapPort, Usage: "sglang: first `PORT` where prefill engines hand KV over, and the one that decode engines ask when a request names none; 0 takes a free one for each engine"},
		&cli.IntFlag{Category: among, Name: "dp-size", Aliases: []string{"data-parallel-size"}, Value: 1, Usage: "data-parallel `RANKS` of each engine"},
		&cli.StringFlag{Category: among, Name: "load-balance-method", Value: string(simhttp.FollowRoom), Usage: "sglang: how a request that names no rank finds one: `follow_bootstrap_room` or round_robin"},
		&cli.StringFlag{Category: among, Name: "kv-role", Usage: "vllm: `ROLE` kv_producer, kv_consumer or kv_both"},
		&cli.StringFlag{Category: among, Name: "ec-role", Usage: "vllm: `ROLE` ec_producer or ec_consumer"},
		&cli.StringFlag{Category: among, Name: "kv-transfer-config", Usage: "vllm: the role and more as vLLM's own `JSON`"},
		&cli.StringFlag{Category: among, Name: "ec-transfer-config", Usage: "vllm: the role and more as vLLM's own `JSON`"},
		&cli.IntFlag{Category: among, Name: "kv-side-channel-port", Value: d.SideChannelPort, EnvVars: []string{"VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_MOONCAKE_BOOTSTRAP_PORT"}, Usage: "vllm: first `PORT` where producers hand KV over; 0 takes a free one for each engine"},
		&cli.StringFlag{Category: among, Name: "kv-side-channel-host", EnvVars: []string{"VLLM_NIXL_SIDE_CHANNEL_HOST"}, DefaultText: "the address it listens on", Usage: "vllm: `HOST` that consumers are told"},
		&cli.BoolFlag{Category: among, Name: "kv-correlate", Usage: "vllm: hand KV only to a request of the same id, as versions before 0.13 do"},
		&cli.BoolFlag{Category: among, Name: "tokens-only", Usage: "vllm: answer /abort_requests"},
		&cli.BoolFlag{Category: among, Name: "refuse-bootstrap-lists", Usage: "sglang: refuse lists of rooms for one prompt with several answers, as some versions do"},
		&cli.DurationFlag{Category: among, Name: "bootstrap-timeout", Value: d.BootstrapTimeout, Usage: "real `TIME` that two engines wait to meet"},
		&cli.DurationFlag{Category: among, Name: "waiting-timeout", Value: d.WaitingTimeout, Usage: "real `TIME` that an engine waits for KV after that"},
		&cli.DurationFlag{Category: among, Name: "kv-lease", Value: d.Lease, Usage: "vllm: real `TIME` that KV is kept for whoever fetches it"},
		&cli.StringFlag{Category: among, Name: "kv-load-failure-policy", Value: string(d.LoadFailure), Usage: "vllm: `fail` the request whose KV does not come, or recompute it"},
		&cli.IntFlag{Category: among, Name: "kv-bytes-per-token", Value: core.BytesPerToken, Usage: "`BYTES` of one token's KV"},
		&cli.Float64Flag{Category: among, Name: "transfer-gb-s", Value: core.TransferBytesPerSecond / 1e9, Usage: "`GIGABYTES` of KV that leave an engine in a second"},
		&cli.Float64Flag{Category: among, Name: "transfer-latency-ms", Value: milliseconds(core.TransferLatency), Usage: "`MILLISECONDS` that each transfer takes besides"},

		&cli.StringSliceFlag{Category: media, Name: "ec-peers", Usage: "vllm: `URL` of an encoder that a consumer asks for embeddings; may be repeated or hold several, separated by commas"},
		&cli.StringFlag{Category: media, Name: "ec-dir", Usage: "vllm: `DIRECTORY` where encoders leave embeddings for consumers"},
		&cli.BoolFlag{Category: media, Name: "ec-strict", Usage: "vllm: fail requests whose embeddings no encoder has, instead of encoding them"},
		&cli.BoolFlag{Category: media, Name: "encoder-only", Usage: "sglang: encode media for other engines, and answer no chats"},
		&cli.BoolFlag{Category: media, Name: "language-only", Usage: "sglang: leave media to the engines of --encoder-urls"},
		&cli.StringSliceFlag{Category: media, Name: "encoder-urls", Usage: "sglang: `URL` of an encoder; others may follow, as arguments or after commas"},
		&cli.DurationFlag{Category: media, Name: "encoder-timeout", Value: d.EncoderTimeout, Usage: "sglang: real `TIME` that a request waits for its embeddings"},
		&cli.StringFlag{Category: media, Name: "encoder-transfer-backend", Value: zmqToScheduler, Usage: "sglang: `BACKEND` by which embeddings go from engine to engine; there is only this one"},
		&cli.IntFlag{Category: media, Name: "media-tokens", Value: d.MediaTokens, Usage: "prefill `TOKENS` that encoding one medium costs"},
		&cli.IntFlag{Category: media, Name: "max-media-bytes", Value: d.MaxMediaBytes, Usage: "`BYTES` of the largest medium inside a request"},
	}
}

// zmqToScheduler is SGLang's own default.
const zmqToScheduler = "zmq_to_scheduler"

// disaggConfig reads them into cfg.
func disaggConfig(c *cli.Context, cfg *simhttp.Config) error {
	cfg.Core.BytesPerToken = c.Int("kv-bytes-per-token")
	cfg.Core.TransferBytesPerSecond = c.Float64("transfer-gb-s") * 1e9
	cfg.Core.TransferLatency = duration(c.Float64("transfer-latency-ms"), time.Millisecond)
	cfg.Ranks = simhttp.Ranks{Size: c.Int("dp-size"), Method: simhttp.LoadBalance(c.String("load-balance-method"))}
	d := &cfg.Disagg
	d.Mode = simhttp.Mode(c.String("disaggregation-mode"))
	d.BootstrapPort = c.Int("disaggregation-bootstrap-port")
	d.KVRole = simhttp.KVRole(c.String("kv-role"))
	d.ECRole = simhttp.ECRole(c.String("ec-role"))
	d.SideChannelPort = c.Int("kv-side-channel-port")
	d.SideChannelHost = c.String("kv-side-channel-host")
	d.Correlate, d.TokensOnly = c.Bool("kv-correlate"), c.Bool("tokens-only")
	d.RefuseLists = c.Bool("refuse-bootstrap-lists")
	d.BootstrapTimeout = c.Duration("bootstrap-timeout")
	d.WaitingTimeout = c.Duration("waiting-timeout")
	d.Lease = c.Duration("kv-lease")
	d.LoadFailure = simhttp.LoadFailure(c.String("kv-load-failure-policy"))
	d.ECPeers = c.StringSlice("ec-peers")
	d.ECDir = c.String("ec-dir")
	d.ECStrict = c.Bool("ec-strict")
	d.EncoderOnly, d.LanguageOnly = c.Bool("encoder-only"), c.Bool("language-only")
	d.EncoderURLs, d.EncoderTimeout = c.StringSlice("encoder-urls"), c.Duration("encoder-timeout")
	if backend := c.String("encoder-transfer-backend"); backend != zmqToScheduler {
		return fmt.Errorf("--encoder-transfer-backend must be %s, not %q", zmqToScheduler, backend)
	}
	d.MediaTokens = c.Int("media-tokens")
	d.MaxMediaBytes = c.Int("max-media-bytes")
	if err := kvTransferConfig(c.String("kv-transfer-config"), d); err != nil {
		return err
	}
	return ecTransferConfig(c.String("ec-transfer-config"), d)
}

// joined has the URLs behind --encoder-urls in one argument, since SGLang takes them
// as several.
func joined(args []string) []string {
	const name = "encoder-urls"
	var out []string
	for i := 0; i < len(args); i++ {
		out = append(out, args[i])
		if args[i] == "--" {
			return append(out, args[i+1:]...)
		}
		if strings.TrimLeft(args[i], "-") != name || !strings.HasPrefix(args[i], "-") {
			continue
		}
		end := i + 1
		for end < len(args) && !strings.HasPrefix(args[end], "-") {
			end++
		}
		if end > i+1 {
			out = append(out, strings.Join(args[i+1:end], ","))
			i = end - 1
		}
	}
	return out
}

// kvTransferConfig reads the members of vLLM's KVTransferConfig that matter
// here. They take precedence over flags, but for a role that contradicts one.
func kvTransferConfig(text string, d *simhttp.Disaggregation) error {
	if text == "" {
		return nil
	}
	var v struct {
		Connector   string              `json:"kv_connector"`
		Role        simhttp.KVRole      `json:"kv_role"`
		EngineID    string              `json:"engine_id"`
		LoadFailure simhttp.LoadFailure `json:"kv_load_failure_policy"`
		Extra       struct {
			Lease float64 `json:"kv_lease_duration"`
		} `json:"kv_connector_extra_config"`
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return fmt.Errorf("--kv-transfer-config must be a JSON object: %w", err)
	}
	switch {
	case v.Connector == "":
		return fmt.Errorf("--kv-transfer-config: kv_connector is missing")
	case v.Role == "":
		return fmt.Errorf("--kv-transfer-config: kv_role is missing")
	case d.KVRole != "" && d.KVRole != v.Role:
		return fmt.Errorf("--kv-transfer-config says %s, and --kv-role %s", v.Role, d.KVRole)
	}
	d.KVRole, d.EngineID, d.Connector = v.Role, v.EngineID, v.Connector
	if v.LoadFailure != "" {
		d.LoadFailure = v.LoadFailure
	}
	if v.Extra.Lease != 0 {
		d.Lease = duration(v.Extra.Lease, time.Second)
	}
	return nil
}

// ecTransferConfig reads the members of vLLM's ECTransferConfig that matter
// here, and "peers", which is ours.
func ecTransferConfig(text string, d *simhttp.Disaggregation) error {
	if text == "" {
		return nil
	}
	var v struct {
		Role  simhttp.ECRole `json:"ec_role"`
		Extra struct {
			Dir   string   `json:"shared_storage_path"`
			Peers []string `json:"peers"`
		} `json:"ec_connector_extra_config"`
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return fmt.Errorf("--ec-transfer-config must be a JSON object: %w", err)
	}
	switch {
	case v.Role == "":
		return fmt.Errorf("--ec-transfer-config: ec_role is missing")
	case d.ECRole != "" && d.ECRole != v.Role:
		return fmt.Errorf("--ec-transfer-config says %s, and --ec-role %s", v.Role, d.ECRole)
	}
	d.ECRole = v.Role
	if v.Extra.Dir != "" {
		d.ECDir = v.Extra.Dir
	}
	d.ECPeers = slices.Concat(d.ECPeers, v.Extra.Peers)
	return nil
}
