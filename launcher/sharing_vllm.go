package launcher

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"smg/worker"
)

// How vLLM's prefill engines hand KV over.
const (
	// KVNIXL is over side channels that the engines tell each other.
	KVNIXL = "nixl"
	// KVMooncake is over a bootstrap port of each prefill engine.
	KVMooncake = "mooncake"
)

// KVBackends returns the legal values of [Config.KVBackend].
func KVBackends() []string { return []string{KVNIXL, KVMooncake} }

// sideChannelBase is vLLM's own default.
const sideChannelBase = 5600

// The flags that tell vLLM's engines their roles, each a JSON object.
const (
	kvTransferFlag = "--kv-transfer-config"
	ecTransferFlag = "--ec-transfer-config"
)

// member is one member of a JSON object.
type member struct {
	name  string
	value any
}

// vllmSharing is how vLLM's engines share requests. embed is by what an engine hands
// embeddings over, or takes them: the members of a configuration, and further flags.
func (c Config) vllmSharing(embed func(p Place) (extra []member, flags []string)) (*sharing, error) {
	if err := c.checkTransfers(); err != nil {
		return nil, err
	}
	embedding := func(p Place, role string) []string {
		extra, flags := embed(p)
		own := append([]member{{"ec_connector", "ECExampleConnector"}, {"ec_role", role}}, extra...)
		return append([]string{ecTransferFlag, c.configuration(p, ecTransferFlag, own)}, flags...)
	}
	s := &sharing{
		owned:  []string{kvTransferFlag, ecTransferFlag},
		merged: []string{kvTransferFlag, ecTransferFlag},
		flags: func(p Place) []string {
			if p.Role == worker.Encode {
				return embedding(p, "ec_producer")
			}
			args := []string{kvTransferFlag, c.configuration(p, kvTransferFlag, c.kvTransfer(p))}
			if len(p.Encoders) > 0 && (isPrefill(p) || c.Backend == BackendSim) {
				// A real decode engine needs none: it gets the KV of whole prompts, and encodes
				// what it answers alone.
				args = append(args, embedding(p, "ec_consumer")...)
			}
			return args
		},
	}
	if c.KVBackend == KVMooncake {
		s.meets = isPrefill
		s.environ = func(p Place) []string { return variable("VLLM_MOONCAKE_BOOTSTRAP_PORT", p.BootstrapPort) }
		return s, nil
	}
	s.sends = isPrefillOrDecode
	s.environ = func(p Place) []string { return variable("VLLM_NIXL_SIDE_CHANNEL_PORT", p.SideChannelPort) }
	return s, nil
}

// variable is a port as an engine's environment holds it, nothing for 0.
func variable(name string, port int) []string {
	if port == 0 {
		return nil
	}
	return []string{name + "=" + strconv.Itoa(port)}
}

// kvTransfer is what makes an engine hand KV over. Mooncake's prefill engines get ids
// that stay the same from start to start.
func (c Config) kvTransfer(p Place) []member {
	connector, role := "NixlConnector", "kv_producer"
	if p.Role == worker.Decode {
		role = "kv_consumer"
	}
	if c.KVBackend != KVMooncake {
		return []member{{"kv_connector", connector}, {"kv_role", role}}
	}
	own := []member{{"kv_connector", "MooncakeConnector"}, {"kv_role", role}}
	if isPrefill(p) {
		own = append(own, member{"engine_id", p.stem()})
	}
	return own
}

// embeddingsIn hands embeddings over in a folder that all engines see.
func (c Config) embeddingsIn(Place) (extra []member, flags []string) {
	return []member{{"ec_connector_extra_config", map[string]string{"shared_storage_path": c.MediaDir}}}, nil
}

// embeddingsFrom has simulated engines ask the encoders.
func embeddingsFrom(p Place) (extra []member, flags []string) {
	if p.Role == worker.Encode {
		return nil, nil
	}
	return nil, []string{"--ec-peers", strings.Join(p.Encoders, ",")}
}

// configuration is the JSON object of a flag: the launcher's own members, then what
// else the user gives there to the engine at p.
func (c Config) configuration(p Place, flag string, own []member) string {
	var out strings.Builder
	write := func(name string, value any) {
		text, err := json.Marshal(value)
		if err != nil { // strings, maps of strings, and JSON that was read always marshal
			return
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%s", name, text)
	}
	for _, m := range own {
		write(m.name, m.value)
	}
	users, _ := c.transferOf(p.Role, flag) // was checked
	for _, name := range slices.Sorted(maps.Keys(users)) {
		if !slices.ContainsFunc(own, func(m member) bool { return m.name == name }) {
			write(name, users[name])
		}
	}
	return "{" + out.String() + "}"
}

// transferOf is what the user gives to engines of a role in such a flag.
func (c Config) transferOf(role worker.Leg, flag string) (map[string]json.RawMessage, error) {
	typed, value, ok := lastFlag(c.argsOf(role), flag)
	if !ok {
		return nil, nil //nolint:nilnil // nothing was given, which is no error
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(value), &members); err != nil {
		return nil, &LaunchError{
			what:   "an engine's configuration is no JSON object",
			detail: []string{typed + " " + value},
			hint:   `write it in single quotes, such as '{"kv_load_failure_policy":"recompute"}'`,
		}
	}
	return members, nil
}

// checkTransfers judges what the user gives in those flags. What the launcher says
// there itself may be repeated.
func (c Config) checkTransfers() error {
	for _, role := range startOrder() {
		if c.Count(role) == 0 {
			continue
		}
		kv, err := c.transferOf(role, kvTransferFlag)
		if err != nil {
			return err
		}
		if _, err := c.transferOf(role, ecTransferFlag); err != nil {
			return err
		}
		want, _ := json.Marshal(c.kvTransfer(Place{Role: role})[0].value)
		if got, ok := kv["kv_connector"]; ok && string(got) != string(want) {
			return &LaunchError{
				what:   "the engines hand KV over in another way",
				detail: []string{fmt.Sprintf("kv_connector %s in %s, and --kv-backend %s", got, kvTransferFlag, c.KVBackend)},
				hint:   "choose with --kv-backend; engines with other connectors can be started by hand and given to smg launch",
			}
		}
	}
	return nil
}
