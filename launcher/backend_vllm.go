package launcher

import "strconv"

// vllm is vLLM, run by an interpreter that has it.
func (c Config) vllm() backend {
	b := backend{
		python:     true,
		needsModel: true,
		gpus:       true,
		modes:      []string{ModeGRPC, ModeHTTP, ModeZMQ},
		owned:      ownedFlags{names: []string{"--model", "--host", "--port", "--uds"}, underscores: true, abbreviated: true},
		argv: func(p Place) []string {
			module := "vllm.entrypoints.openai.api_server"
			if c.Mode == ModeGRPC {
				module = "vllm.entrypoints.grpc_server"
			}
			args := []string{"-m", module, "--model", c.Model, "--host", c.Host, "--port", strconv.Itoa(p.Port)}
			if c.Mode == ModeHTTP && c.TokenDetails {
				args = append(args, "--enable-prompt-tokens-details")
			}
			return args
		},
		sharing: func() (*sharing, error) { return c.vllmSharing(c.embeddingsIn) },
	}
	if c.Mode == ModeZMQ {
		return c.vllmHeadless(b)
	}
	return b
}

// vllmHeadless is an engine without a front end, which dials in to the gateway.
func (c Config) vllmHeadless(b backend) backend {
	b.owned.names = []string{
		"--model", "--headless", "--data-parallel-size", "--data-parallel-size-local", "--data-parallel-address", "--data-parallel-rpc-port",
	}
	b.argv = func(p Place) []string {
		n := strconv.Itoa(c.engineRanks(p.Role))
		return []string{
			"-m", "vllm.entrypoints.cli.main", "serve", c.Model, "--headless",
			"--data-parallel-size", n, "--data-parallel-size-local", n,
			"--data-parallel-address", "127.0.0.1", "--data-parallel-rpc-port", strconv.Itoa(handshakePort(c.socket(p.Port))),
		}
	}
	return b
}
