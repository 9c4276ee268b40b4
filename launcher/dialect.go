package launcher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"smg/worker"
)

// dialect is the real engine whose flags for roles a simulated one is given.
type dialect struct {
	name   string
	chosen bool // by the user, who has told the engines
}

// The dialects of the simulated engine.
const (
	dialectSGLang = "sglang"
	dialectVLLM   = "vllm"
)

// engineFlag is how a user tells simulated engines their dialect.
const engineFlag = "--engine"

// sideChannelBase is vLLM's own default.
const sideChannelBase = 5600

// dialect finds what the user told the engines. Where nobody said anything it is
// the engine's default, and vLLM where there are encoders, which the gateway drives.
func (c Config) dialect() (dialect, error) {
	d := dialect{name: dialectSGLang}
	if c.Encode > 0 {
		d.name = dialectVLLM
	}
	var names []string
	for _, role := range startOrder() {
		if c.Count(role) > 0 {
			name, told := lastValue(c.argsOf(role), engineFlag)
			if told {
				d.name, d.chosen = name, true
			}
			names = appendNew(names, name)
		}
	}
	switch {
	case len(names) > 1:
		return d, &LaunchError{
			what:   "engines of two kinds cannot share the work of a request",
			detail: []string{engineFlag + " " + strings.Join(names, " and "+engineFlag+" ")},
			hint:   "give " + engineFlag + " once, to all engines",
		}
	case d.name != dialectSGLang && d.name != dialectVLLM:
		return d, &LaunchError{
			what:   fmt.Sprintf("%q is no kind of simulated engine", d.name),
			detail: []string{engineFlag + " " + d.name},
			hint:   "use " + engineFlag + " " + dialectSGLang + " or " + engineFlag + " " + dialectVLLM,
		}
	}
	return d, nil
}

// meets says whether p needs a port where others come for KV, which the gateway has
// to know.
func (d dialect) meets(p Place) bool { return d.name == dialectSGLang && p.Role == worker.Prefill }

// sends says whether p needs a port for KV that the engines tell each other.
func (d dialect) sends(p Place) bool {
	return d.name == dialectVLLM && (p.Role == worker.Prefill || p.Role == worker.Decode)
}

// owned are the flags that the launcher sets for engines in roles.
func (d dialect) owned() []string {
	if d.name == dialectVLLM {
		return []string{"--kv-transfer-config", "--kv-role", "--ec-transfer-config", "--ec-role", "--kv-side-channel-port"}
	}
	return []string{"--disaggregation-mode", "--disaggregation-bootstrap-port", "--encoder-only", "--language-only", "--encoder-urls"}
}

// argv are the flags that put the engine into its role.
func (d dialect) argv(p Place) []string {
	var args []string
	if d.name == dialectSGLang {
		if p.Role == worker.Encode {
			return []string{"--encoder-only"}
		}
		args = append(args, "--disaggregation-mode", p.Role.String())
		if p.BootstrapPort != 0 {
			args = append(args, "--disaggregation-bootstrap-port", strconv.Itoa(p.BootstrapPort))
		}
		if p.Role == worker.Prefill && len(p.Encoders) > 0 {
			args = append(args, "--language-only", "--encoder-urls", strings.Join(p.Encoders, ","))
		}
		return args
	}
	if !d.chosen {
		args = append(args, engineFlag, d.name)
	}
	switch p.Role {
	case worker.Encode:
		return append(args, "--ec-transfer-config", `{"ec_connector":"ECExampleConnector","ec_role":"ec_producer"}`)
	case worker.Prefill:
		args = append(args, "--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_producer"}`)
	case worker.Decode:
		args = append(args, "--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}`)
	}
	if len(p.Encoders) > 0 {
		args = append(args, "--ec-transfer-config", `{"ec_connector":"ECExampleConnector","ec_role":"ec_consumer"}`,
			"--ec-peers", strings.Join(p.Encoders, ","))
	}
	return args
}

// environ is what engines in roles read from their environment.
func (p Place) environ() []string {
	if p.SideChannelPort == 0 {
		return nil
	}
	return []string{"VLLM_NIXL_SIDE_CHANNEL_PORT=" + strconv.Itoa(p.SideChannelPort)}
}

// lastValue is the value that args give a flag; of several the last counts, as for
// the engine.
func lastValue(args []string, flag string) (value string, ok bool) {
	for i, a := range args {
		key, v, hasValue := strings.Cut(a, "=")
		if !strings.HasPrefix(key, "-") || "--"+strings.TrimLeft(key, "-") != flag {
			continue // one dash is as good as two, as for the engine
		}
		if !hasValue {
			if i+1 == len(args) {
				continue
			}
			v = args[i+1]
		}
		value, ok = v, true
	}
	return value, ok
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
