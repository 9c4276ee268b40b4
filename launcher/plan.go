package launcher

// Planned is one engine as it would be started.
type Planned struct {
	Endpoint
	// Name is as in [Process.Name].
	Name string
	// Command is the command line for a shell, with the values of secret flags hidden.
	Command string
	// Environ are the variables that the engine would find besides those of the
	// launcher.
	Environ []string
}

// Plan is what [Group.Start] would start, in that order. It looks for no program and
// asks for no port: each engine has the port that it gets if that is free.
func (c Config) Plan() ([]Planned, error) {
	b, err := c.backend()
	if err != nil {
		return nil, err
	}
	share, err := c.sharing(b)
	if err != nil {
		return nil, err
	}
	places, err := c.places(share, func(string, int) (bool, error) { return true, nil })
	if err != nil {
		return nil, err
	}
	out := make([]Planned, len(places))
	for i, p := range places {
		argv, err := c.CommandLine(c.usualProgram(b), p)
		if err != nil {
			return nil, err
		}
		out[i] = Planned{
			Endpoint: Endpoint{Role: p.Role, Rank: p.Rank, URL: c.url(p.Port), Port: p.Port, BootstrapPort: p.BootstrapPort},
			Name:     p.Name(),
			Command:  shellJoin(redactArgs(argv)),
			Environ:  c.additions(p),
		}
	}
	return out, nil
}

// Dropped names the engine flags of the user that no engine would get, since the
// launcher sets them itself.
func (c Config) Dropped() []string {
	b, err := c.backend()
	if err != nil {
		return nil
	}
	share, err := c.sharing(b)
	if err != nil {
		return nil
	}
	return c.dropped(b, share)
}

// usualProgram is what would run the engines, as somebody types it.
func (c Config) usualProgram(b backend) string {
	switch {
	case b.python:
		return c.pythonName()
	case len(b.command) > 0:
		return b.command[0]
	case c.EngineBin != "":
		return c.EngineBin
	}
	return b.program
}
