package launcher

import (
	"encoding/json"
	"fmt"
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

// vllmSharing is how vLLM's engines share requests. embed are the flags by which an
// engine hands embeddings over, or takes them.
func (c Config) vllmSharing(embed func(p Place, role string) []string) *sharing {
	s := &sharing{
		owned: []string{"--kv-transfer-config", "--ec-transfer-config"},
		flags: func(p Place) []string {
			if p.Role == worker.Encode {
				return embed(p, "ec_producer")
			}
			args := []string{"--kv-transfer-config", c.kvTransfer(p)}
			if len(p.Encoders) > 0 {
				args = append(args, embed(p, "ec_consumer")...)
			}
			return args
		},
	}
	if c.KVBackend == KVMooncake {
		s.meets = isPrefill
		s.environ = func(p Place) []string { return variable("VLLM_MOONCAKE_BOOTSTRAP_PORT", p.BootstrapPort) }
		return s
	}
	s.sends = isPrefillOrDecode
	s.environ = func(p Place) []string { return variable("VLLM_NIXL_SIDE_CHANNEL_PORT", p.SideChannelPort) }
	return s
}

// variable is a port as an engine's environment holds it, nothing for 0.
func variable(name string, port int) []string {
	if port == 0 {
		return nil
	}
	return []string{name + "=" + strconv.Itoa(port)}
}

// kvTransfer is vLLM's KVTransferConfig of a prefill or decode engine. Mooncake's
// prefill engines get ids that stay the same from start to start.
func (c Config) kvTransfer(p Place) string {
	connector, role, id := "NixlConnector", "kv_producer", ""
	if p.Role == worker.Decode {
		role = "kv_consumer"
	}
	if c.KVBackend == KVMooncake {
		connector = "MooncakeConnector"
		if isPrefill(p) {
			id = fmt.Sprintf(`,"engine_id":"%s"`, p.stem())
		}
	}
	return fmt.Sprintf(`{"kv_connector":"%s","kv_role":"%s"%s}`, connector, role, id)
}

// embeddingsIn hands embeddings over in a folder that all engines see. Decode needs
// none: it gets the KV of whole prompts, and encodes what it answers alone.
func embeddingsIn(dir string) func(Place, string) []string {
	return func(p Place, role string) []string {
		if p.Role == worker.Decode {
			return nil
		}
		path, err := json.Marshal(dir)
		if err != nil { // strings always marshal
			return nil
		}
		return []string{"--ec-transfer-config", fmt.Sprintf(
			`{"ec_connector":"ECExampleConnector","ec_role":"%s","ec_connector_extra_config":{"shared_storage_path":%s}}`, role, path)}
	}
}

// embeddingsFrom has simulated engines ask the encoders.
func embeddingsFrom(p Place, role string) []string {
	args := []string{"--ec-transfer-config", fmt.Sprintf(`{"ec_connector":"ECExampleConnector","ec_role":"%s"}`, role)}
	if p.Role != worker.Encode {
		args = append(args, "--ec-peers", strings.Join(p.Encoders, ","))
	}
	return args
}
