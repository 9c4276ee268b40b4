package launcher

import (
	"slices"
	"strconv"
	"strings"
)

// custom is whatever the user's command starts: any engine that listens where it is
// told and answers GET /health.
func (c Config) custom() backend {
	b := backend{
		command: c.EngineCmd,
		gpus:    true,
		modes:   []string{ModeGRPC, ModeHTTP},
		argv: func(p Place) []string {
			if len(c.EngineCmd) == 0 {
				return nil
			}
			return c.expand(c.EngineCmd[1:], p)
		},
	}
	if slices.ContainsFunc(c.EngineCmd, func(w string) bool { return strings.Contains(w, "{tp}") }) {
		// The command says itself where the size goes.
		b.owned = ownedFlags{names: append(tensorFlags(), "-tp"), underscores: true}
	}
	return b
}

// expand puts what is known of the engine at p into the words of a command. Other
// braces are the command's own.
func (c Config) expand(words []string, p Place) []string {
	tensor, err := c.tensorSize(p.Role)
	if err != nil {
		tensor = 1 // refused before anything is started
	}
	fill := strings.NewReplacer(
		"{model}", c.Model, "{host}", c.Host, "{port}", strconv.Itoa(p.Port),
		"{rank}", strconv.Itoa(p.Index), "{tp}", strconv.Itoa(tensor),
	)
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = fill.Replace(w)
	}
	return out
}
