package flags

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"smg/policy"
)

// exported is one flag for other programs, such as the Python package.
type exported struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	// Kind is bool, scalar, list, repeated or url_and_port.
	Kind string `json:"kind"`
	// Type is that of a value: bool, int, float or str.
	Type string `json:"type"`
	// Value is the placeholder in help.
	Value string `json:"value,omitempty"`
	// Default is in the syntax of the flag, empty for none.
	Default string `json:"default"`
	// Choices are all values that the flag takes, empty if they cannot be listed.
	Choices []string `json:"choices,omitempty"`
	// LauncherRefuses are those of Choices that the Python launcher does not take.
	LauncherRefuses []string `json:"launcher_refuses,omitempty"`
	// Commands are those that have the flag; serve:router is serve with --router-
	// before the name.
	Commands []string `json:"commands"`
	Env      []string `json:"env,omitempty"`
	Dashed   bool     `json:"dashed,omitempty"`
	Secret   bool     `json:"secret,omitempty"`
	// Later: the flag is taken with its default alone.
	Later bool   `json:"later,omitempty"`
	Group string `json:"group"`
	Help  string `json:"help"`
}

// Export writes the table of flags as one JSON document. It is what the Python
// package is generated from.
func Export(w io.Writer) error {
	all := []exported{}
	for _, d := range Table() {
		all = append(all, d.export())
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"flags": all}); err != nil {
		return fmt.Errorf("writing the flags: %w", err)
	}
	return nil
}

func (d *Def) export() exported {
	e := exported{
		Name: d.Name, Aliases: d.Aliases, Kind: d.Kind.name(), Type: d.valueType(), Value: d.Value, Default: d.Default, Choices: d.Choices(),
		Commands: d.commands(), Env: append(d.variables(), d.Presence...), Dashed: d.Dashed, Secret: d.Secret, Later: d.Later, Group: d.Group, Help: d.Help,
	}
	if d.In&InLaunch != 0 && (d.Name == "policy" || d.Name == "decode-policy") {
		e.LauncherRefuses = []string{policy.Bucket}
	}
	return e
}

func (k Kind) name() string {
	return [...]string{Bool: "bool", Scalar: "scalar", List: "list", Repeated: "repeated", URLAndPort: "url_and_port"}[k]
}

// commands names what has the flag.
func (d *Def) commands() (names []string) {
	for _, c := range []struct {
		in   Scope
		name string
	}{
		{InLaunch, nameLaunch},
		{InRouter, nameServe + ":router"},
		{InServe, nameServe},
		{InIngress, nameIngress},
		{InSelector, nameSelector},
		{InReplay, nameReplay},
	} {
		if d.In&c.in != 0 {
			names = append(names, c.name)
		}
	}
	return names
}

// valueType finds out what the flag takes by trying; of a flag that is not built yet
// there is its default alone to go by.
func (d *Def) valueType() string {
	if d.Kind == Bool {
		return "bool"
	}
	if d.set == nil {
		if _, err := strconv.Atoi(d.Default); err == nil {
			return "int"
		}
		return "str"
	}
	takes := func(v string) bool { return d.set(&Serve{}, v) == nil }
	switch {
	case d.Kind == URLAndPort || d.Choices() != nil || takes("x") || takes("1,2"):
		return "str"
	case takes("0.5") || takes("1.5"):
		return "float"
	case takes("1") || takes(d.Default):
		return "int"
	}
	return "str"
}
