package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/e2e/manifest"
)

func TestParse(t *testing.T) {
	const text = `# a comment
kind: A # and one more
spec:
  ports:
    - name: http
      port: 80
    - name: "a: b"
  args:
    - --x=http://h:1
    - "#y"
---
kind: B
`
	got, err := manifest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	type m = map[string]manifest.Node
	want := []manifest.Node{
		m{"kind": "A", "spec": m{
			"ports": []manifest.Node{m{"name": "http", "port": "80"}, m{"name": "a: b"}},
			"args":  []manifest.Node{"--x=http://h:1", "#y"},
		}},
		m{"kind": "B"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := manifest.Number(manifest.List(got[0], "spec", "ports")[0], "port"); n != 80 {
		t.Errorf("port %d", n)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a tab", "a:\tb", "tab"},
		{"deeper for no reason", "a: b\n  c: d", "indented more"},
		{"shallower than the first", "  a: b\nc: d", "indented less"},
		{"twice", "a: b\na: c", "new here"},
		{"no value", "a:\nb: c", "no value"},
		{"no key", "a: b\nc", "no key"},
		{"an item among keys", "a: b\n- c", "no key"},
		{"a key among items", "- a\nb: c", "no item"},
		{"a flow", "a: {b: c}", "double quotes"},
		{"a block of text", "a: |\n  b", "double quotes"},
		{"an alias", "a: *b", "double quotes"},
		{"two colons", "a: b: c", "double quotes"},
		{"an open quote", `a: "b`, "does not end"},
		{"a quote and a comment", `a: "b" # c`, "a line of its own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := manifest.Parse(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v, want ... %s ...", got, err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a:\n  - b: c\n    d: \"e\"\n---\nf: g")
	f.Fuzz(func(t *testing.T, text string) {
		if documents, err := manifest.Parse(text); err == nil {
			for _, d := range documents {
				manifest.Containers(d) // whatever it is
			}
		}
	})
}
