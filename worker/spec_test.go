package worker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCanonicalURL(t *testing.T) {
	good := map[string]string{
		"http://10.0.0.1:8000":   "http://10.0.0.1:8000",
		"http://10.0.0.1:8000/":  "http://10.0.0.1:8000",
		"https://host/base//":    "https://host/base",
		"http://[::1]:80":        "http://[::1]:80",
		"http://[fe80::1%25e0]":  "http://[fe80::1%25e0]",
		"http://Engine.local:80": "http://Engine.local:80",
	}
	for raw, want := range good {
		if got, err := CanonicalURL(raw); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", raw, got, err, want)
		}
	}
	bad := map[string]string{
		"":                       "empty",
		"host:8000":              "write http://host:8000",
		"HTTP://h":               "write the scheme in lower case: http://h",
		"ftp://h":                `scheme "ftp" is not one of`,
		"http://":                "names no host",
		"http:///x":              "names no host",
		"http://h:":              "a colon but no port",
		"http://h:0":             "not in 1..65535",
		"http://h:65536":         "not in 1..65535",
		"http://h:x":             "cannot be parsed",
		"http://h?q=1":           "query or fragment",
		"http://h#f":             "query or fragment",
		"http://[zz::1]:1":       "cannot be parsed",
		"http://u:secret@h":      "user name or password",
		"u:secret@h":             "user name or password",
		"grpc://u:secret@h:1":    "user name or password",
		"http://u:secret%zz@h/x": "user name or password",
		"grpc://h:1":             "gRPC engines are not supported yet",
		"ipc:///tmp/x":           "ZMQ (ipc) engines are not supported yet",
		"ipc://":                 "names no host or path",
	}
	for raw, want := range bad {
		_, err := CanonicalURL(raw)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", raw, err, want)
		}
		if strings.Count(err.Error(), "supported") > 1 {
			t.Errorf("%q: it is said twice: %v", raw, err)
		}
		if unsupported := strings.Contains(want, "not supported yet"); errors.Is(err, ErrModeUnsupported) != unsupported {
			t.Errorf("%q: ErrModeUnsupported is %v", raw, !unsupported)
		}
	}
}

func FuzzCanonicalURL(f *testing.F) {
	for _, s := range []string{"http://h:1/x/", "https://[::1%25e]:9", "grpc://h", "ipc://x", "h:1", "http://u@h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		once, err := CanonicalURL(raw)
		if err != nil {
			return
		}
		if twice, err := CanonicalURL(once); err != nil || twice != once {
			t.Errorf("%q → %q → %q, %v", raw, once, twice, err)
		}
	})
}

func TestIDs(t *testing.T) {
	id := IDOf("http://10.0.0.1:8000")
	if want := "1575ef2d-51e9-58d2-8f98-b71652d2c0ad"; id.String() != want { // as Python's uuid5 has it
		t.Errorf("id %s, want %s", id, want)
	}
	if got, err := ParseID(id.String()); err != nil || got != id {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseID("x"); err == nil {
		t.Error("x is an id")
	}
}

func TestSpec(t *testing.T) {
	s := specAt(1, "m", "n")
	s.Labels = map[string]string{"a": "b"}
	s.Models[0].Aliases = []string{"x"}
	c := s.Clone()
	if d := cmp.Diff(s, c); d != "" {
		t.Errorf("clone (-want +got):\n%s", d)
	}
	c.Labels["a"], c.Models[0].Aliases[0], c.Models[1].ID = "c", "y", "o"
	if s.Labels["a"] != "b" || s.Models[0].Aliases[0] != "x" || s.Models[1].ID != "n" {
		t.Error("a clone shares memory")
	}
	if s.ModelID() != "m" || specAt(1).ModelID() != "" {
		t.Error("model id")
	}
	same := specAt(2)
	same.RegisteredAt = s.RegisteredAt
	order := []*Spec{specAt(3), same, s, specAt(0)}
	slices.SortFunc(order, (*Spec).Compare)
	if order[1] != s || order[2] != same || s.Compare(c) != 0 {
		t.Error("order is not (registered at, URL)")
	}
}

func TestHashKey(t *testing.T) {
	k := HashKey("tenant-1")
	if k != HashKey("tenant-1") || k.Sum == HashKey("tenant-2").Sum {
		t.Errorf("key %x", k.Sum)
	}
	if p := k.Position(); byte(p) != k.Sum[0] || byte(p>>56) != k.Sum[7] {
		t.Errorf("position %x of %x is not the little-endian head", p, k.Sum)
	}
	// The reference vector of an empty input, which real keys never are.
	if e := HashKey(""); e.Sum[0] != 0xaf || e.Sum[1] != 0x13 || e.Short != 0x2d06800538d394c2 {
		t.Errorf("hash of nothing: %x %x", e.Sum, e.Short)
	}
}

func TestMembers(t *testing.T) {
	r, _, specs := fleet(3)
	m := r.Pool(Regular, "").Members()
	calls := 0
	for range 2 {
		n := m.Memo(func(m *Members) any { calls++; return m.Len() }).(int)
		if n != 3 || calls != 1 {
			t.Errorf("memo %d after %d calls", n, calls)
		}
	}
	if m.Spec(1) != specs[1] || m.Index(specs[2].ID) != 2 || m.Index(ID{}) != -1 {
		t.Error("members are not in order")
	}
}
