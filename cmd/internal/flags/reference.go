package flags

import (
	"fmt"
	"slices"
	"strings"
)

// Reference is the page of all flags, in Markdown.
func Reference() string {
	table := Table()
	var out strings.Builder
	out.WriteString(`# Flags

<!-- Written by "make golden" from the tables of cmd/internal/flags; do not edit. -->

Every flag of smg, by group; ` + "`smg launch --help=all`" + ` prints those of launch, and so for every command. How they are written:

- ` + "`--name value` and `--name=value`" + ` are the same, and so are ` + "`--worker_urls` and `--worker-urls`" + `. A flag without a value is on; ` + "`--name=false`" + ` is off.
- ` + "`URL...`" + ` takes all that follows up to the next flag. ` + repeated(table) + ` are given once for each value.
- In ` + "`serve`" + ` the gateway's flags begin with ` + "`--router-`: `--router-policy`" + `. What ` + "`serve`" + ` does not know, it passes to the engines.
- ` + "`check`" + ` takes the flags of ` + "`launch`" + `, and so does smg without a command.
- A flag that is not typed is taken from its first variable that is set. The value of a list is split at blanks.

`)
	for _, group := range groupsOf(table) {
		fmt.Fprintf(&out, "## %s\n\n| Flag | Default | Variables | Commands | Meaning |\n|---|---|---|---|---|\n", group)
		for i := range table {
			if d := &table[i]; d.Group == group && !d.Later {
				d.row(&out)
			}
		}
		out.WriteByte('\n')
	}
	out.WriteString("## Planned\n\nKnown by name, and not supported yet: each is accepted with its default value and refused with any other, with exit code 2.\n\n| Flag | Default | Meaning |\n|---|---|---|\n")
	for i := range table {
		if d := &table[i]; d.Later {
			fmt.Fprintf(&out, "| %s | %s | %s |\n", cell(d.spellings()), cell(code(d.Default)), cell(d.Help))
		}
	}
	return out.String()
}

// repeated names the flags that are given once for each value.
func repeated(table []Def) string {
	var all []string
	for _, d := range table {
		if !d.Later && (d.Kind == Repeated || d.Kind == URLAndPort) {
			all = append(all, code("--"+d.Name))
		}
	}
	slices.Sort(all)
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// groupsOf are the groups of what works, in the order of the table.
func groupsOf(table []Def) (groups []string) {
	for _, d := range table {
		if !d.Later && !slices.Contains(groups, d.Group) {
			groups = append(groups, d.Group)
		}
	}
	return groups
}

// row writes d as a line of a Markdown table.
func (d *Def) row(out *strings.Builder) {
	var variables []string
	for _, v := range d.variables() {
		variables = append(variables, code(v))
	}
	for _, v := range d.Presence {
		variables = append(variables, code(v)+" (any value)")
	}
	meaning := d.Help
	if all := d.Choices(); len(all) > 0 && len(d.offered()) == len(all) && !named(d.Help, all[0]) {
		meaning += " One of " + strings.Join(all, ", ") + "."
	}
	fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", cell(d.spellings()), cell(code(d.Default)), strings.Join(variables, "<br>"), d.foundIn(), cell(meaning))
}

// spellings are the names of d and its placeholder, in Markdown.
func (d *Def) spellings() string {
	all := []string{code(strings.TrimSpace("--" + d.Name + " " + d.Value))}
	for _, a := range d.Aliases {
		all = append(all, code("--"+a))
	}
	return strings.Join(all, "<br>")
}

// foundIn names where d exists.
func (d *Def) foundIn() string {
	var all []string
	for _, c := range []struct {
		name string
		in   Scope
	}{
		{nameLaunch, InLaunch},
		{nameServe + " (`--router-`)", InRouter},
		{nameServe, InServe},
		{nameIngress, InIngress},
		{nameSelector, InSelector},
		{nameReplay, InReplay},
	} {
		if d.In&c.in != 0 || c.in == InReplay && d.replayed() {
			all = append(all, c.name)
		}
	}
	return strings.Join(all, ", ")
}

// offered are the choices of d that there is a use for: where the sentence of help
// names some of them, the others are known to be refused later.
func (d *Def) offered() []string {
	all := d.Choices()
	some := slices.DeleteFunc(slices.Clone(all), func(c string) bool { return !named(d.Help, c) })
	if len(some) == 0 {
		return all
	}
	return some
}

// named says whether word stands in a sentence.
func named(sentence, word string) bool {
	return slices.Contains(strings.FieldsFunc(sentence, func(r rune) bool { return !headerRune(r) || r == '.' }), word)
}

// code marks what is typed, and leaves nothing as nothing.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// cell keeps a text within its cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
