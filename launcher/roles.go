package launcher

import (
	"errors"
	"strconv"
	"strings"

	"smg/worker"
)

// HasRoles says whether the engines share the work of each request instead of doing
// all of it.
func (c Config) HasRoles() bool { return c.Encode != 0 || c.Prefill != 0 || c.Decode != 0 }

// Count is how many engines of a role are started. Engines without roles are
// [worker.Regular].
func (c Config) Count(role worker.Leg) int {
	switch role {
	case worker.Encode:
		return c.Encode
	case worker.Prefill:
		return c.Prefill
	case worker.Decode:
		return c.Decode
	}
	if c.HasRoles() {
		return 0
	}
	return c.Replicas
}

// Total is how many engines are started.
func (c Config) Total() int {
	n := 0
	for _, role := range startOrder() {
		n += c.Count(role)
	}
	return n
}

// startOrder is the order of roles in everything that is counted through: ports,
// ranks in the environment, endpoints.
func startOrder() []worker.Leg {
	return []worker.Leg{worker.Regular, worker.Encode, worker.Prefill, worker.Decode}
}

// Place is what sets one engine of a launch apart from the others.
type Place struct {
	// Role is [worker.Regular] for an engine that does everything.
	Role worker.Leg
	// Rank counts the engines of the same role from 0, Index all of them.
	Rank  int
	Index int
	Port  int
	// BootstrapPort is where a prefill engine meets decode engines and SideChannelPort
	// where an engine hands KV over; 0 where the engine has none.
	BootstrapPort   int
	SideChannelPort int
	// GPUs are those that the engine sees, as CUDA_VISIBLE_DEVICES names them; none where
	// it sees what the launcher sees.
	GPUs []string
	// Encoders are the URLs of all encoders of the launch.
	Encoders []string
}

// Name is how a person reads of the engine: "engine 0", "prefill 1".
func (p Place) Name() string { return roleName(p.Role) + " " + strconv.Itoa(p.Rank) }

func roleName(role worker.Leg) string {
	if role == worker.Regular {
		return "engine"
	}
	return role.String()
}

// stem is Name as a part of a file's name.
func (p Place) stem() string { return strings.ReplaceAll(p.Name(), " ", "-") }

// line lists the engines in the order of their start, without anything that has to
// be found.
func (c Config) line() []Place {
	places := make([]Place, 0, c.Total())
	for _, role := range startOrder() {
		for rank := range c.Count(role) {
			places = append(places, Place{Role: role, Rank: rank, Index: len(places)})
		}
	}
	return places
}

// places is line with the GPUs and ports of each engine.
func (c Config) places(share *sharing, free portTest) ([]Place, error) {
	places := c.line()
	if err := c.assignGPUs(places); err != nil {
		return nil, err
	}
	if err := c.findPorts(places, share, free); err != nil {
		return nil, err
	}
	if err := c.checkHandshakes(places); err != nil {
		return nil, err
	}
	var encoders []string
	for _, p := range places {
		if p.Role == worker.Encode {
			encoders = append(encoders, c.url(p.Port))
		}
	}
	for i := range places {
		places[i].Encoders = encoders
	}
	return places, nil
}

// argsOf is what the user gives to engines of a role.
func (c Config) argsOf(role worker.Leg) []string {
	own := map[worker.Leg][]string{worker.Encode: c.EncodeArgs, worker.Prefill: c.PrefillArgs, worker.Decode: c.DecodeArgs}[role]
	return append(append([]string(nil), c.EngineArgs...), own...)
}

// CheckRoles says whether engines of this backend can be started in the roles that
// c asks for. Its error is a [LaunchError].
func (c Config) CheckRoles() error {
	if !c.HasRoles() {
		return nil
	}
	b, err := c.backend()
	if err != nil {
		return nil // Validate tells
	}
	_, err = c.sharing(b)
	return err
}

// checkRoles is the part of Validate that concerns roles.
func (c Config) checkRoles(add func(format string, args ...any)) {
	for _, role := range startOrder()[1:] {
		if n := c.Count(role); n < 0 {
			add("--%s-replicas %d: must not be negative", role, n)
		}
	}
	if c.Prefill < 1 || c.Decode < 1 {
		add("--prefill-replicas %d and --decode-replicas %d: both must be at least 1", c.Prefill, c.Decode)
	}
	if c.BootstrapBasePort < 1 || c.BootstrapBasePort > maxPort {
		add("--bootstrap-base-port %d: must be 1..%d", c.BootstrapBasePort, maxPort)
	}
	if err, ok := errors.AsType[*LaunchError](c.CheckRoles()); ok {
		add("%s: %w", strings.Join(err.detail, ", "), err)
	}
}

// findPorts gives every place its ports: first those that the engines listen on, so
// that they do not depend on what else is asked for.
func (c Config) findPorts(places []Place, share *sharing, free portTest) error {
	reserved := append([]int(nil), c.ReservedPorts...)
	fill := func(s portSearch, wanted func(Place) bool, put func(p *Place, port int)) error {
		var who []*Place
		for i := range places {
			if wanted(places[i]) {
				who = append(who, &places[i])
			}
		}
		s.host, s.reserved = c.Host, reserved
		ports, err := s.pick(len(who), free)
		if err != nil {
			return err
		}
		for i, p := range who {
			for n := range s.width {
				reserved = append(reserved, ports[i]+n)
			}
			put(p, ports[i])
		}
		return nil
	}
	err := fill(portSearch{base: c.BasePort, step: portStep, width: 1, flag: "--worker-base-port"},
		func(Place) bool { return true }, func(p *Place, port int) { p.Port = port })
	if err != nil || !c.HasRoles() {
		return err
	}
	err = fill(portSearch{base: c.BootstrapBasePort, step: 1, width: 1, flag: "--bootstrap-base-port"},
		share.meet, func(p *Place, port int) { p.BootstrapPort = port })
	if err != nil {
		return err
	}
	ranks := c.mostRanks() // each of which takes a port behind the first
	return fill(portSearch{base: sideChannelBase, step: ranks, width: ranks}, share.send, func(p *Place, port int) { p.SideChannelPort = port })
}

// mostRanks is the largest data parallelism inside an engine.
func (c Config) mostRanks() int {
	n := 1
	for _, role := range startOrder() {
		if c.Count(role) > 0 {
			n = max(n, c.engineRanks(role))
		}
	}
	return n
}

// dropped names the flags of the user that no engine gets, each once.
func (c Config) dropped(b backend, share *sharing) []string {
	var names []string
	for _, role := range startOrder() {
		if c.Count(role) == 0 {
			continue
		}
		_, gone := c.rest(b, share, Place{Role: role})
		for _, name := range gone {
			names = appendNew(names, name)
		}
	}
	return names
}
