package ingress

import (
	"log/slog"

	"smg/worker"
)

// charsPerToken is how many characters of a prompt count as a token, where its tokens
// are not known.
const charsPerToken = 4

// mayBeLocal says whether a decode worker may compute the prompt itself, as far as it
// is short enough. What media make of a prompt is not known.
func (x *exchange) mayBeLocal(rt *route, p *Plan) bool {
	if x.srv.cfg.PD.LocalPrefill <= 0 || len(p.items) > 0 {
		return false
	}
	if rt.media != nil && x.mode != EPD {
		items, err := rt.media(&x.query.body)
		return err == nil && len(items) == 0
	}
	return true
}

// local says whether a decode worker that is known to hold so many tokens of the prompt
// computes the rest itself. It must be one that can: SGLang's cannot.
func (x *exchange) local(p *Plan, matched int64) bool {
	p.alone = p.local && x.promptTokens()-matched <= x.srv.cfg.PD.LocalPrefill
	return p.alone
}

// promptTokens is how long the prompt is, guessed where the client does not say which
// tokens it has.
func (x *exchange) promptTokens() int64 {
	in := &x.query.inputs
	if in.count > 0 {
		return in.count
	}
	return (in.chars + charsPerToken - 1) / charsPerToken
}

// notLocal tells the operator, once, that a limit has no effect.
func (s *Server) notLocal(w *worker.Spec) {
	s.remote.Do(func() {
		s.log.Warn("decode workers of this engine compute no prompts: every prompt goes to a prefill worker",
			slog.String("worker", w.URL), slog.String("runtime", string(w.Runtime)), slog.Int64("pd_local_prefill_max_tokens", s.cfg.PD.LocalPrefill))
	})
}
