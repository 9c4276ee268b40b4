package bootstrap

import (
	"errors"
	"fmt"

	"smg/worker"
)

// strangers are the runtimes that are not known to hand KV over by HTTP. Those that are
// not named, and are not known, are spoken to as SGLang is.
var strangers = [...]worker.Runtime{"trtllm", "mlx", "external"}

// unsupported says why a worker cannot serve its leg, "" for one who can.
func unsupported(s *worker.Spec) string {
	if said := misplaced(s); said != "" {
		return said
	}
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

// misplaced says that a worker's engine was started for another leg than the one that
// it is registered for, "" if not, or if the engine does not tell. An SGLang engine
// that was started for one leg lets the requests of another one wait or fail.
func misplaced(s *worker.Spec) string {
	said := s.Labels[modeLabel]
	if s.Runtime != worker.SGLang || s.Leg == worker.Encode || said == s.Leg.String() ||
		said != worker.Prefill.String() && said != worker.Decode.String() {
		return ""
	}
	return fmt.Sprintf("role_mismatch: it is registered as a %s worker, and its engine was started for %s", s.Leg, said)
}

// errTaken is in the error of a worker that is somebody else's on its own leg.
var errTaken = errors.New("another gateway has it")

// taken says that a worker which is registered already must not be registered as s
// says: somebody else has it on the leg that its engine was started for. Two command
// lines that disagree would otherwise undo each other. r.mu is held.
func (r *Registrar) taken(s *worker.Spec) error {
	old := r.heard[s.ID]
	if old == nil || old.Leg == s.Leg || misplaced(s) == "" || misplaced(old) != "" {
		return nil
	}
	return fmt.Errorf("%w as a %s worker, which its engine was started for; here it is to be a %s worker", errTaken, old.Leg, s.Leg)
}
