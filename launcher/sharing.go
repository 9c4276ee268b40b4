package launcher

import (
	"fmt"
	"strings"

	"smg/worker"
)

// sharing is how engines of one kind are told their part in the work of a request.
type sharing struct {
	// owned are the flags that the launcher sets for it, merged those of them that keep
	// what else the user has in them.
	owned, merged []string
	// meets says whether the engine at p needs a port where others come for KV, which
	// the gateway has to know; sends, whether it needs ports that the engines tell each
	// other. Nil is nobody.
	meets, sends func(p Place) bool
	// flags put the engine into its role, environ is what it reads of that from its
	// environment. A nil environ is nothing.
	flags   func(p Place) []string
	environ func(p Place) []string
}

func (s *sharing) meet(p Place) bool { return s != nil && s.meets != nil && s.meets(p) }

func (s *sharing) send(p Place) bool { return s != nil && s.sends != nil && s.sends(p) }

func (s *sharing) env(p Place) []string {
	if s == nil || s.environ == nil {
		return nil
	}
	return s.environ(p)
}

// engineFlag is how a user tells simulated engines which real one they are like.
const engineFlag = "--engine"

// simSharing is that of the engine which the simulated ones are like. Where nobody
// said anything that is their own default, and vLLM where there are encoders, which
// the gateway drives, or a choice of how vLLM hands KV over.
func (c Config) simSharing() (*sharing, error) {
	kind, told := BackendSGLang, false
	if c.Encode > 0 || c.KVBackend == KVMooncake {
		kind = BackendVLLM
	}
	var names []string
	for _, role := range startOrder() {
		if c.Count(role) == 0 {
			continue
		}
		name, ok := lastValue(c.argsOf(role), engineFlag)
		if ok {
			kind, told = name, true
		}
		names = appendNew(names, name)
	}
	if len(names) > 1 {
		return nil, &LaunchError{
			what:   "engines of two kinds cannot share the work of a request",
			detail: []string{engineFlag + " " + strings.Join(names, " and "+engineFlag+" ")},
			hint:   "give " + engineFlag + " once, to all engines",
		}
	}
	switch kind {
	case BackendSGLang:
		return sglangSharing(), nil
	case BackendVLLM:
		s, err := c.vllmSharing(embeddingsFrom)
		if err != nil {
			return nil, err
		}
		s.owned = append(s.owned, "--kv-role", "--ec-role", "--kv-side-channel-port")
		if told {
			return s, nil
		}
		flags := s.flags
		s.flags = func(p Place) []string { return append([]string{engineFlag, kind}, flags(p)...) }
		return s, nil
	}
	return nil, &LaunchError{
		what:   fmt.Sprintf("%q is no kind of simulated engine", kind),
		detail: []string{engineFlag + " " + kind},
		hint:   "use " + engineFlag + " " + BackendSGLang + " or " + engineFlag + " " + BackendVLLM,
	}
}

func isPrefill(p Place) bool { return p.Role == worker.Prefill }

func isPrefillOrDecode(p Place) bool { return p.Role == worker.Prefill || p.Role == worker.Decode }
