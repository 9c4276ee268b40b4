package client

import "smg/worker"

// Canonical is the id of the model that goes by an alias, as far as this copy knows;
// false for any other name.
func (c *Client) Canonical(name string) (id string, ok bool) { return c.registry.Canonical(name) }

// Roles counts a model's workers, as far as this copy knows.
func (c *Client) Roles(model string) worker.Roles { return c.registry.Roles(model) }
