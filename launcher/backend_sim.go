package launcher

import "strconv"

// sim is the simulated engine.
func (c Config) sim() backend {
	return backend{
		program: "smg-sim",
		bundled: true,
		modes:   []string{ModeHTTP},
		owned:   ownedFlags{names: []string{"--host", "--port", "--model"}},
		argv: func(p Place) []string {
			args := []string{"--host", c.Host, "--port", strconv.Itoa(p.Port)}
			if c.Model != "" {
				args = append(args, "--model", c.Model)
			}
			return args
		},
		sharing: c.simSharing,
	}
}
