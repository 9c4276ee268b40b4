package bootstrap

import (
	"fmt"

	"smg/worker"
)

// strangers are the runtimes that are not known to hand KV over by HTTP. Those that are
// not named, and are not known, are spoken to as SGLang is.
var strangers = [...]worker.Runtime{"trtllm", "mlx", "external"}

// unsupported says why a worker cannot serve its leg, "" for one who can.
func unsupported(s *worker.Spec) string {
	if s.Leg != worker.Prefill && s.Leg != worker.Decode {
		return ""
	}
	for _, r := range strangers {
		if s.Runtime == r {
			return fmt.Sprintf("runtime_pd_not_supported: a %s worker of runtime %s cannot share requests: that takes %s or %s",
				s.Leg, r, worker.SGLang, worker.VLLM)
		}
	}
	return ""
}
