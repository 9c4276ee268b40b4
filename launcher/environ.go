package launcher

import (
	"slices"
	"strconv"
	"strings"
)

// inherited is what engines see of the launcher's environment: everything but what
// the gateway is told there, some of which is secret.
func inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "SMG_FLAG_") || slices.Contains(ofTheGateway(), name)
	})
}

// ofTheGateway are variables that no engine has a use for.
func ofTheGateway() []string { return []string{"SMG_NATS_URL", "SMG_API_KEY", "SMG_CLUSTER_SECRET"} }

// additions is what the launcher adds to the environment of the engine at p.
func (c Config) additions(p Place) []string {
	env := []string{
		"PYTHONUNBUFFERED=1",
		"SMG_WORKER_RANK=" + strconv.Itoa(p.Index),
		"SMG_WORKER_PORT=" + strconv.Itoa(p.Port),
	}
	if len(p.GPUs) > 0 {
		env = append(env, visibleDevices+"="+strings.Join(p.GPUs, ","))
	}
	b, err := c.backend()
	if err != nil {
		return env
	}
	share, err := c.sharing(b)
	if err != nil {
		return env
	}
	return append(env, share.env(p)...)
}
