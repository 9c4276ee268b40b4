package launcher

import "strconv"

// llamacpp is llama.cpp's own server.
func (c Config) llamacpp() backend {
	return backend{
		program:    "llama-server",
		needsModel: true,
		modelFile:  true,
		modes:      []string{ModeHTTP},
		owned:      ownedFlags{names: []string{"--model", "-m", "--host", "--port"}},
		argv: func(p Place) []string {
			return []string{"--model", c.Model, "--host", c.Host, "--port", strconv.Itoa(p.Port), "--metrics"}
		},
	}
}
