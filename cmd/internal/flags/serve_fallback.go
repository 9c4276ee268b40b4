package flags

import (
	"slices"

	"smg/launcher"
)

// noFallbackFlag switches the fallback off.
const noFallbackFlag = "router-disable-arg-fallback"

// sharedFlags are settings that engines and gateway both have under one name.
func sharedFlags() []string {
	return []string{"model-path", "tokenizer-path", "chat-template", "reasoning-parser", "tool-call-parser", "api-key"}
}

// fallback has the gateway use what the user gives the engines, where the gateway's
// own flag is missing. Settings that are never empty stay as they are, and so do
// flags that the gateway does not have.
func fallback(s *set, r *rewritten) {
	if i := slices.IndexFunc(r.flags, func(g given) bool { return g.name == noFallbackFlag }); i >= 0 && r.flags[i].value == "true" {
		return
	}
	for _, name := range sharedFlags() {
		e := s.lookup(routerPrefix + name)
		if e == nil || e.set == nil || r.has(e.name) {
			continue
		}
		value, _ := launcher.LastArg(r.engineArgs, "--"+name)
		if name == "model-path" {
			value = r.value("model") // serve takes that itself
		}
		if value == "" {
			continue
		}
		where := "--" + name + " " + value
		if e.Secret {
			where = "--" + name
		}
		r.flags = append(r.flags, given{e.name, value, where})
	}
}

// value is the value of a flag that was given once, or empty.
func (r *rewritten) value(name string) string {
	i := slices.IndexFunc(r.flags, func(g given) bool { return g.name == name })
	if i < 0 {
		return ""
	}
	return r.flags[i].value
}
