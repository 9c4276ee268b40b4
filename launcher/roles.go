package launcher

import (
	"errors"
	"net"
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
	// Rank counts the engines of the same role from 0.
	Rank int
	Port int
	// BootstrapPort is where a prefill engine meets decode engines and SideChannelPort
	// where an engine hands KV over; 0 where the engine has none.
	BootstrapPort   int
	SideChannelPort int
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

// places lists the engines in the order of their start.
func (c Config) places(free portTest) ([]Place, error) {
	places := make([]Place, 0, c.Total())
	for _, role := range startOrder() {
		for rank := range c.Count(role) {
			places = append(places, Place{Role: role, Rank: rank})
		}
	}
	if err := c.findPorts(places, free); err != nil {
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

func (c Config) url(port int) string {
	return "http://" + net.JoinHostPort(c.Host, strconv.Itoa(port))
}

// CheckRoles says whether engines of this backend can be started in the roles that
// c asks for. Its error is a [LaunchError].
func (c Config) CheckRoles() error {
	if !c.HasRoles() {
		return nil
	}
	if c.Backend != BackendSim {
		return &LaunchError{
			what:   c.Backend + " has no prefill/decode roles",
			detail: []string{"--backend " + c.Backend},
			hint:   "use --backend " + BackendSim + ", or --data-parallel-size for engines that do everything",
		}
	}
	_, err := c.dialect()
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
func (c Config) findPorts(places []Place, free portTest) error {
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
		reserved = append(reserved, ports...)
		for i, p := range who {
			put(p, ports[i])
		}
		return nil
	}
	err := fill(portSearch{base: c.BasePort, step: portStep, flag: "--worker-base-port"},
		func(Place) bool { return true }, func(p *Place, port int) { p.Port = port })
	if err != nil || !c.HasRoles() {
		return err
	}
	d, err := c.dialect()
	if err != nil {
		return err
	}
	err = fill(portSearch{base: c.BootstrapBasePort, step: 1, flag: "--bootstrap-base-port"},
		d.meets, func(p *Place, port int) { p.BootstrapPort = port })
	if err != nil {
		return err
	}
	return fill(portSearch{base: sideChannelBase, step: 1}, d.sends, func(p *Place, port int) { p.SideChannelPort = port })
}

// dropped names the flags of the user that no engine gets, each once.
func (c Config) dropped(owned []string) []string {
	var names []string
	for _, role := range startOrder() {
		if c.Count(role) == 0 {
			continue
		}
		_, gone := removeOwned(c.argsOf(role), owned)
		for _, name := range gone {
			names = appendNew(names, name)
		}
	}
	return names
}
