package client

import "smg/worker"

// Canonical is the id of the model that goes by an alias, as far as this copy knows:
// one that a worker brings, else one of the configuration.
func (c *Client) Canonical(name string) (id string, ok bool) {
	if id, ok = c.registry.Canonical(name); ok || len(c.cfg.Aliases) == 0 {
		return id, ok
	}
	id, ok = c.cfg.Aliases[name]
	if !ok || c.registry.Known(name) {
		return "", false
	}
	if own, ok := c.registry.Canonical(id); ok { // an alias itself
		return own, true
	}
	return id, true
}

// Roles counts a model's workers, as far as this copy knows.
func (c *Client) Roles(model string) worker.Roles { return c.registry.Roles(model) }
