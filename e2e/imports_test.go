package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "smg"

// pkg is what go list tells about a package.
type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
	Deps       []string
}

// listed are all packages of the module, by path without the module's name.
func listed(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Doc,Imports,Deps", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	pkgs := map[string]pkg{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("reading go list: %v", err)
		}
		if p.ImportPath == module || strings.HasPrefix(p.ImportPath, module+"/") {
			pkgs[strings.TrimPrefix(p.ImportPath, module+"/")] = p
		}
	}
}

// rule is what a package may import of the module. Patterns are those of
// path.Match; a pattern that ends in /... covers the package and all below it.
type rule struct {
	pkg    string
	allows []string
	denies []string // outside the module, with everything below
}

// rules is the table of docs/architecture.md. The first rule that matches holds.
var rules = []rule{
	{pkg: "worker", denies: []string{"net/http", "github.com/nats-io"}},
	{pkg: "wire/wirepb"},
	{pkg: "wire", allows: []string{"worker", "wire/wirepb"}, denies: []string{"github.com/nats-io"}},
	{pkg: "policy/ring"},
	{pkg: "policy/radix"},
	{pkg: "policy/kvindex", allows: []string{"worker"}},
	{pkg: "policy/policytest", allows: []string{"worker", "policy/..."}},
	{pkg: "policy", allows: []string{"worker", "policy/ring", "policy/radix", "policy/kvindex"}, denies: []string{"net/http", "github.com/nats-io"}},
	{pkg: "tokenizer/ucd"},
	{pkg: "tokenizer/regex", allows: []string{"tokenizer/ucd"}},
	{pkg: "tokenizer/jinja", denies: []string{"net/http", "github.com/nats-io", "google.golang.org/grpc"}},
	{pkg: "tokenizer/chattemplate", allows: []string{"tokenizer/jinja"}, denies: []string{"net/http", "github.com/nats-io", "google.golang.org/grpc"}},
	{pkg: "tokens", allows: []string{"tokenizer", "tokenizer/chattemplate"}, denies: []string{"net/http", "github.com/nats-io", "google.golang.org/grpc"}},
	{pkg: "tokenizer", allows: []string{"tokenizer/..."}, denies: []string{"net/http", "github.com/nats-io", "google.golang.org/grpc"}},
	{pkg: "bus/natsd"},
	{pkg: "bus/bustest", allows: []string{"bus/..."}},
	{pkg: "bus", allows: []string{"wire"}, denies: []string{"github.com/nats-io/nats-server"}},
	{pkg: "bootstrap", allows: []string{"worker", "wire"}},
	{pkg: "engine/enginetest"},
	{pkg: "engine/enginepb/...", allows: []string{"engine/enginepb/..."}},
	{pkg: "zmtp"},
	{pkg: "engine/kvzmq", allows: []string{"engine", "zmtp"}, denies: []string{"github.com/nats-io"}},
	{pkg: "engine/rpc", allows: []string{"engine", "engine/enginepb/..."}, denies: []string{"github.com/nats-io"}},
	{pkg: "engine", allows: []string{"worker"}, denies: []string{"github.com/nats-io"}},
	{pkg: "legs/client", allows: []string{"worker", "wire", "bus", "policy/ring"}},
	{pkg: "legs", allows: []string{"worker", "policy", "policy/kvindex", "wire", "bus"}, denies: []string{"net/http"}},
	{pkg: "ingress/body"},
	{pkg: "ingress/front"},
	{pkg: "ingress/tokenreply", allows: []string{"engine/rpc"}},
	{pkg: "ingress/tokenstream", allows: []string{"engine", "engine/rpc", "ingress/tokenreply"}},
	{pkg: "ingress/prepare", allows: []string{"engine/rpc", "ingress/body", "tokenizer", "tokenizer/...", "tokens"}, denies: []string{"net/http", "github.com/nats-io"}},
	{pkg: "ingress", allows: []string{"worker", "wire", "bootstrap", "engine", "ingress/..."}, denies: []string{"github.com/nats-io"}},
	{pkg: "launcher/...", allows: []string{"worker", "launcher/..."}},
	{pkg: "sim/...", allows: []string{"sim/...", "engine/enginepb/...", "zmtp"}, denies: []string{"github.com/nats-io"}},
	{pkg: "record", allows: []string{"worker", "wire"}, denies: []string{"net/http", "github.com/nats-io"}},
	{pkg: "stats"},
	{pkg: "study/...", allows: []string{"worker", "policy", "sim", "record", "stats", "study/..."}, denies: []string{"net/http", "github.com/nats-io"}},
	{pkg: "e2e/...", allows: []string{"sim/...", "e2e/..."}},
	{pkg: "bench/...", allows: []string{"..."}},
	{pkg: "cmd/...", allows: []string{"..."}},
}

func matches(pattern, path string) bool {
	if root, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(path+"/", root)
	}
	ok, err := filepath.Match(pattern, path)
	return ok && err == nil
}

func anyMatches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

func TestImports(t *testing.T) {
	pkgs := listed(t)
	for _, path := range slices.Sorted(maps.Keys(pkgs)) {
		i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.pkg, path) })
		if i < 0 {
			t.Errorf("%s stands in no row of the import table", path)
			continue
		}
		for _, imp := range pkgs[path].Imports {
			own, internal := strings.CutPrefix(imp, module+"/")
			if internal && !anyMatches(rules[i].allows, own) {
				t.Errorf("%s imports %s, which it must not know", path, own)
			}
			if !internal && slices.ContainsFunc(rules[i].denies, func(d string) bool { return imp == d || strings.HasPrefix(imp, d+"/") }) {
				t.Errorf("%s imports %s, which it must not know", path, imp)
			}
		}
	}
}

func TestWhatBinariesLink(t *testing.T) {
	pkgs := listed(t)
	tests := []struct {
		program string
		not     []string
	}{
		{"cmd/smg-selector", []string{"github.com/nats-io/nats-server", module + "/bus/natsd", module + "/ingress", module + "/legs/client", module + "/cmd/internal/gateway", module + "/study", "go.opentelemetry.io"}},
		{"cmd/smg-ingress", []string{"github.com/nats-io/nats-server", module + "/bus/natsd", module + "/study"}},
		{"cmd/smg-sim", []string{"go.opentelemetry.io", "github.com/nats-io", module + "/ingress", module + "/legs", module + "/engine"}},
	}
	for _, tt := range tests {
		t.Run(tt.program, func(t *testing.T) {
			p, ok := pkgs[tt.program]
			if !ok {
				t.Fatal("there is no such program")
			}
			for _, dep := range p.Deps {
				for _, not := range tt.not {
					if dep == not || strings.HasPrefix(dep, not+"/") && !strings.HasPrefix(dep, module+"/engine/enginepb/") {
						t.Errorf("it links %s", dep)
					}
				}
			}
		})
	}
}

func TestEveryPackageHasItsParagraph(t *testing.T) {
	for path, p := range listed(t) {
		if len(p.Doc) < 40 {
			t.Errorf("%s does not say what it owns: its doc is %q", path, p.Doc)
		}
	}
}
