package manifest

import (
	"fmt"
	"os"
	"strconv"
)

// Read parses a file.
func Read(file string) ([]Node, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	documents, err := Parse(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return documents, nil
}

// At is what stands behind the keys in n, and in mappings inside; nil if there is
// nothing.
func At(n Node, keys ...string) Node {
	for _, k := range keys {
		m, _ := n.(map[string]Node)
		n = m[k]
	}
	return n
}

// Text is a string behind the keys, or "".
func Text(n Node, keys ...string) string {
	s, _ := At(n, keys...).(string)
	return s
}

// List is a sequence behind the keys, or none.
func List(n Node, keys ...string) []Node {
	l, _ := At(n, keys...).([]Node)
	return l
}

// Texts are the strings of a sequence behind the keys.
func Texts(n Node, keys ...string) []string {
	var all []string
	for _, v := range List(n, keys...) {
		all = append(all, Text(v))
	}
	return all
}

// Number is a whole number behind the keys, or -1.
func Number(n Node, keys ...string) int {
	v, err := strconv.Atoi(Text(n, keys...))
	if err != nil {
		return -1
	}
	return v
}

// Containers are those of the pods that a document describes.
func Containers(document Node) []Node {
	return List(document, "spec", "template", "spec", "containers")
}

// Probe is a page that a cluster asks for.
type Probe struct {
	Kind, Path, Port string // Port is a name
}

// Probes are those of a container.
func Probes(container Node) []Probe {
	var all []Probe
	for _, kind := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
		if p := At(container, kind, "httpGet"); p != nil {
			all = append(all, Probe{kind, Text(p, "path"), Text(p, "port")})
		}
	}
	return all
}
