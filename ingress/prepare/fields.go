package prepare

import (
	"math"
	"slices"

	"smg/ingress/body"
	"smg/tokenizer/jinja"
)

// fields reads the keys of an object, and keeps the first fault. null counts as absent.
type fields struct {
	dict  *jinja.Dict
	raw   *body.Body // nil for an object within the body
	path  string     // before the names of keys in messages
	seen  []string
	fault *Fault
}

func (f *fields) fail(format string, args ...any) {
	if f.fault == nil {
		f.fault = invalid(format, args...)
	}
}

// get is a key's value, nil if it is absent.
func (f *fields) get(name string) jinja.Value {
	f.seen = append(f.seen, name)
	v, _ := f.dict.Get(name)
	return v
}

func (f *fields) has(name string) bool { return f.get(name) != nil }

func (f *fields) boolean(name string, otherwise bool) bool {
	switch v := f.get(name).(type) {
	case nil:
		return otherwise
	case bool:
		return v
	default:
		f.fail("%s%s must be true or false", f.path, name)
		return otherwise
	}
}

func (f *fields) str(name string) string {
	switch v := f.get(name).(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		f.fail("%s%s must be a string", f.path, name)
		return ""
	}
}

// number is a key's number, from least to most.
func (f *fields) number(name string, otherwise, least, most float64) float64 {
	var n float64
	switch v := f.get(name).(type) {
	case nil:
		return otherwise
	case int64:
		n = float64(v)
	case float64:
		n = v
	default:
		f.fail("%s%s must be a number", f.path, name)
		return otherwise
	}
	if !(n >= least && n <= most) {
		f.fail("%s%s must be from %v to %v, not %v", f.path, name, least, most, n)
		return otherwise
	}
	return n
}

// whole is a key's whole number, from least to most; absent says that there is none.
func (f *fields) whole(name string, least, most int64) (n int64, ok bool) {
	switch v := f.get(name).(type) {
	case nil:
		return 0, false
	case int64:
		n = v
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			f.fail("%s%s must be a whole number, not %v", f.path, name, v)
			return 0, false
		}
		n = int64(v)
	default:
		f.fail("%s%s must be a whole number", f.path, name)
		return 0, false
	}
	if n < least || n > most {
		f.fail("%s%s must be from %d to %d, not %d", f.path, name, least, most, n)
		return 0, false
	}
	return n, true
}

func (f *fields) wholeOr(name string, otherwise, least, most int64) int {
	if n, ok := f.whole(name, least, most); ok {
		otherwise = n
	}
	return int(otherwise)
}

// object is a key's object, never nil.
func (f *fields) object(name string) *fields {
	sub := &fields{dict: &jinja.Dict{}, path: f.path + name + "."}
	switch v := f.get(name).(type) {
	case nil:
	case *jinja.Dict:
		sub.dict = v
	default:
		f.fail("%s%s must be an object", f.path, name)
	}
	return sub
}

// take keeps the fault of an object within.
func (f *fields) take(sub *fields) {
	if f.fault == nil {
		f.fault = sub.fault
	}
}

// strs is a key's string, or its strings.
func (f *fields) strs(name string) []string {
	switch v := f.get(name).(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case *jinja.List:
		all := make([]string, len(v.Items))
		for i, x := range v.Items {
			s, ok := x.(string)
			if !ok {
				f.fail("%s%s must be a string or a list of strings", f.path, name)
				return nil
			}
			all[i] = s
		}
		return all
	}
	f.fail("%s%s must be a string or a list of strings", f.path, name)
	return nil
}

// ids is a key's list of token ids.
func (f *fields) ids(name string) []uint32 {
	v := f.get(name)
	if v == nil {
		return nil
	}
	ids, ok := tokenIDs(v)
	if !ok {
		f.fail("%s%s must be a list of token ids", f.path, name)
	}
	return ids
}

// tokenIDs are the ids that v lists, if it lists nothing else.
func tokenIDs(v jinja.Value) ([]uint32, bool) {
	l, ok := v.(*jinja.List)
	if !ok {
		return nil, false
	}
	ids := make([]uint32, len(l.Items))
	for i, x := range l.Items {
		n, ok := x.(int64)
		if !ok || n < 0 || n > math.MaxUint32 {
			return nil, false
		}
		ids[i] = uint32(n)
	}
	return ids, true
}

// maxUnknown is how many unknown keys are told of.
const maxUnknown = 16

// unknown are keys that nobody has asked for.
func (f *fields) unknown() []string {
	var names []string
	for name := range f.dict.All() {
		if len(names) < maxUnknown && !slices.Contains(f.seen, name) && !meant(name) {
			names = append(names, name)
		}
	}
	return names
}

// meant reports whether a key has a meaning for the gateway, or none for anybody.
func meant(name string) bool {
	switch name {
	case "model", "user", "metadata", "store", "service_tier", "rid", "request_id", "cache_salt", "extra_key", "priority", "safety_identifier", "prompt_cache_key":
		return true
	}
	return false
}
