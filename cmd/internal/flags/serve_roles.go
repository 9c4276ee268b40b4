package flags

import (
	"strings"

	"smg/launcher"
)

// hasRole says whether engines of a role were asked for.
func hasRole(typed map[string]string, role string) bool { return typed[role+"-replicas"] != "" }

// finishRoles refuses, with exit code 2, engines that do not make whole requests
// together, and sets the mode of the gateway.
func (s *Serve) finishRoles(typed map[string]string) error {
	for _, needs := range []struct{ flag, role string }{
		{"prefill-replicas", "decode"},
		{"decode-replicas", "prefill"},
		{"encode-replicas", "prefill"},
		{"encode-replicas", "decode"},
		{"prefill-args", "prefill"},
		{"decode-args", "decode"},
		{"encode-args", "encode"},
		{"bootstrap-base-port", "prefill"},
		{"kv-backend", "prefill"},
	} {
		if where, ok := typed[needs.flag]; ok && !hasRole(typed, needs.role) {
			return usage(where, "add --"+needs.role+"-replicas N", "there are no %s engines", needs.role)
		}
	}
	if !s.Engines.HasRoles() {
		return nil
	}
	if where, ok := typed["data-parallel-size"]; ok {
		return usage(where, "leave it out: the replicas of the roles say how many engines there are",
			"--data-parallel-size is for engines that do everything")
	}
	if err := s.Engines.CheckRoles(); err != nil {
		return launchFault(err, ExitUsage)
	}
	if where, ok := typed["kv-backend"]; ok && s.Engines.Backend == launcher.BackendSGLang {
		return usage(where, "SGLang's own flag is --disaggregation-transfer-backend", "--kv-backend is for --backend vllm")
	}
	s.Mode = PD
	if s.Engines.Encode > 0 {
		s.Mode = EPD
	}
	return nil
}

// finishSingle switches off what has no use in front of one engine, and says so.
func (s *Serve) finishSingle(typed map[string]string) (notices []string) {
	if s.PolicySet && s.Policy != singlePolicy {
		notices = append(notices, "one worker: policy "+singlePolicy+", --router-policy "+s.Policy+" does not apply")
	}
	s.Policy = singlePolicy
	line := []string{"one worker: retries and circuit breaker are off"}
	for _, d := range retryTable() {
		if where, ok := typed[routerPrefix+d.Name]; ok && d.Kind != Bool {
			line = append(line, where+" does not apply")
		}
	}
	s.Retry.Disabled, s.Retry.Max = true, 1
	s.Breaker.Disabled = true
	return append(notices, strings.Join(line, ", "))
}
