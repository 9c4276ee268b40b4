package launcher

import "strconv"

// sglang is SGLang, run by an interpreter that has it.
func (c Config) sglang() backend {
	return backend{
		python:     true,
		needsModel: true,
		gpus:       true,
		modes:      []string{ModeGRPC, ModeHTTP},
		owned:      ownedFlags{names: []string{"--model-path", "--model", "--host", "--port"}, abbreviated: true},
		argv: func(p Place) []string {
			args := []string{"-m", "sglang.launch_server", "--model-path", c.Model, "--host", c.Host, "--port", strconv.Itoa(p.Port)}
			switch {
			case c.Mode == ModeGRPC:
				args = append(args, "--grpc-mode")
			case c.TokenDetails:
				args = append(args, "--enable-cache-report")
			}
			return args
		},
		sharing: func() (*sharing, error) { return sglangSharing(), nil },
	}
}
