package bootstrap

import (
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"smg/worker"
)

// remark is what looks wrong with a worker, and may be right. It is told once by who has
// registered the worker, and again only if it was not so in between.
type remark struct {
	id     worker.ID
	worker string // its URL
	text   string
	hint   string
}

// followsRoom is the load balance method with which an SGLang prefill engine finds the
// rank in the room, as decode does.
const followsRoom = "follow_bootstrap_room"

// Remarks is what looks wrong with the workers of a fleet, and may be right, in words.
func Remarks(fleet []*worker.Spec) map[worker.ID][]string {
	all := map[worker.ID][]string{}
	for _, m := range remarksOf(slices.Values(fleet)) {
		all[m.id] = append(all[m.id], m.text)
	}
	for _, s := range fleet {
		// Why is told in the log when it is registered.
		if _, ok := s.MooncakeID(); !ok && s.Leg == worker.Prefill && (s.KVConnector == mooncake || s.KVConnector == worker.MooncakeFound) {
			all[s.ID] = append(all[s.ID], "nobody can fetch its KV, since it is not known by which engine id: decode computes its prompts again")
		}
	}
	return all
}

// remarks are those of now about the workers that are registered here. r.mu is held.
func (r *Registrar) remarks() []remark {
	return slices.DeleteFunc(remarksOf(r.others(worker.ID{})), func(m remark) bool { return r.own[m.id] == nil })
}

func remarksOf(fleet iter.Seq[*worker.Spec]) (all []remark) {
	far := "" // a decode worker that is on no loopback address
	first := map[string]*[2]*worker.Spec{}
	for s := range fleet {
		switch {
		case s.Leg == worker.Decode && !loopback(hostOf(s)) && (far == "" || s.URL < far):
			far = s.URL
		case s.Leg != worker.Prefill && s.Leg != worker.Decode:
			continue
		}
		pair := first[s.ModelID()]
		if pair == nil {
			pair = &[2]*worker.Spec{}
			first[s.ModelID()] = pair
		}
		i := 0
		if s.Leg == worker.Decode {
			i = 1
		}
		if pair[i] == nil || s.Compare(pair[i]) < 0 {
			pair[i] = s
		}
	}
	for s := range fleet {
		if s.Leg == worker.Prefill || s.Leg == worker.Decode {
			all = append(all, alone(s, far)...)
		}
	}
	for _, pair := range first {
		if p := pair[0]; p != nil && p.Runtime == worker.SGLang {
			all = append(all, together(p, pair[1])...)
		}
	}
	return all
}

// alone is what looks wrong with one prefill or decode worker. far is a decode worker on
// another machine, "" if there is none.
func alone(s *worker.Spec, far string) (all []remark) {
	note := func(hint, format string, args ...any) {
		all = append(all, remark{s.ID, s.URL, fmt.Sprintf(format, args...), hint})
	}
	if _, met := addressOf(s); s.Leg == worker.Prefill && met && far != "" && loopback(s.BootstrapHost) {
		note("register it under a name that other machines know, or give it a bootstrap_host",
			"decode worker %s may not reach this prefill worker at %s", far, s.BootstrapHost)
	}
	if said := s.Labels[portLabel]; s.Leg == worker.Prefill && s.BootstrapSource != worker.EngineSource && s.BootstrapPort != 0 &&
		s.Labels[modeLabel] == worker.Prefill.String() && said != "" && said != strconv.Itoa(int(s.BootstrapPort)) {
		note("leave the port out, or correct it, unless it is forwarded",
			"the bootstrap port given for the worker is %d, its engine says %s", s.BootstrapPort, said)
	}
	if s.Runtime != "" && s.Runtime != worker.SGLang && s.Runtime != worker.VLLM && unsupported(s) == "" {
		note("register it with the runtime_type that it has",
			"its runtime is %s, of which it is not known how it shares requests: it is spoken to as %s is", s.Runtime, worker.SGLang)
	}
	return all
}

// together compares the first prefill worker of a model, and the first decode worker
// if there is one.
func together(p, d *worker.Spec) (all []remark) {
	if d != nil {
		for _, label := range []string{"tp_size", "dp_size", "load_balance_method"} {
			if a, b := p.Labels[label], d.Labels[label]; a != "" && b != "" && a != b {
				all = append(all, remark{p.ID, p.URL, fmt.Sprintf("%s is %s, and %s at decode worker %s", label, a, b, d.URL), "start both engines alike if they do not find each other"})
			}
		}
	}
	if n, err := strconv.Atoi(p.Labels["dp_size"]); err == nil && n > 1 && p.DPSize == 0 && p.Labels["load_balance_method"] != followsRoom {
		all = append(all, remark{
			p.ID, p.URL, fmt.Sprintf("the prefill engine has %d data-parallel ranks, of which decode cannot know which one has the request", n),
			"start it with --load-balance-method " + followsRoom + ", or the gateway with --dp-aware",
		})
	}
	return all
}

// hostOf is the host of a worker's own URL.
func hostOf(s *worker.Spec) string {
	u, err := url.Parse(s.Base())
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func loopback(host string) bool {
	host = strings.Trim(host, "[]")
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (a.IsLoopback() || a.IsUnspecified())
}

// remark logs what is new of what looks wrong.
func (r *Registrar) remark() {
	r.mu.Lock()
	now := r.remarks()
	old := r.remarked
	r.remarked = now
	r.mu.Unlock()
	for _, m := range now {
		if !slices.Contains(old, m) {
			r.log.Warn("workers may not find each other", slog.String("worker", m.worker), slog.String("reason", m.text), slog.String("hint", m.hint))
		}
	}
}
