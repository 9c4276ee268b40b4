package launcher

import (
	"errors"
	"os"
)

// preflight finds everything that can be wrong before the first start.
func (g *Group) preflight() ([]Place, error) {
	b, err := g.cfg.backend()
	if err != nil {
		return nil, err
	}
	if g.program, err = g.cfg.program(b); err != nil {
		return nil, err
	}
	if b.modelFile {
		if _, err := os.Stat(g.cfg.Model); err != nil {
			return nil, &LaunchError{
				what:   "the model file cannot be read",
				detail: []string{"--model " + g.cfg.Model + ": " + errors.Unwrap(err).Error()},
				hint:   "give --model the path of a GGUF file",
			}
		}
	}
	share, err := g.cfg.sharing(b)
	if err != nil {
		return nil, err
	}
	if dropped := g.cfg.dropped(b, share); len(dropped) > 0 {
		g.log.Warn("engine flags dropped, the launcher sets them itself", "flags", dropped)
	}
	return g.cfg.places(share, portFree)
}
