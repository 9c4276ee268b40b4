package flags

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"
)

// flagValue hands the values that urfave/cli parses to their definition.
type flagValue struct {
	entry  *entry
	filler *filler
	seen   bool
}

// Set takes one value. A refusal is kept as a fault of its own, since the flag
// package passes errors on as text.
func (v *flagValue) Set(value string) error {
	if v.entry.clear != nil && !v.seen {
		v.entry.clear(v.filler.config)
	}
	v.seen = true
	err := v.entry.set(v.filler.config, value)
	if err == nil {
		return nil
	}
	hint := ""
	if bad, ok := errors.AsType[*badValue](err); ok {
		hint = bad.want
	}
	where := "--" + v.entry.name + " " + value
	for _, g := range v.filler.line.flags {
		if g.name == v.entry.name && g.value == value {
			where = g.where
		}
	}
	v.filler.fault = usage(where, hint, "%s", err.Error())
	return err
}

// String is what the flag package shows as default, which is never asked for.
func (v *flagValue) String() string { return "" }

// filler is one run of urfave/cli over a canonical line.
type filler struct {
	config *Serve
	line   *rewritten
	fault  *Fault
}

// fill runs urfave/cli over the line and returns the configuration.
func (in *Input) fill(s *set, line *rewritten) (*Serve, error) {
	scope := InLaunch
	switch s.command {
	case nameServe:
		scope = InRouter | InServe
	case nameReplay:
		scope = InLaunch | InReplay
	}
	f := &filler{config: defaults(scope), line: line}
	app := newApp(io.Discard)
	app.Commands = []*cli.Command{s.cliCommand(f, func(*entry) bool { return true }, 0)}
	if err := app.Run(append([]string{app.Name, s.command}, line.argv()...)); err != nil {
		if f.fault != nil {
			return nil, f.fault
		}
		return nil, usage("", "", "reading the command line: %v", err) // the rewriter lets nothing through that ends here
	}
	for _, name := range line.empty {
		if e := s.lookup(name); !slices.ContainsFunc(line.flags, func(g given) bool { return g.name == name }) {
			e.clear(f.config)
		}
	}
	return f.config, nil
}

// newApp is the urfave/cli program without commands.
func newApp(out io.Writer) *cli.App {
	return &cli.App{
		Name:                  "smg",
		Usage:                 "one address in front of many inference engines",
		Writer:                out,
		ErrWriter:             out,
		HideVersion:           true,
		HideHelpCommand:       true,
		CustomAppHelpTemplate: rootTemplate(),
		ExitErrHandler:        func(*cli.Context, error) {}, // exit codes are main's
	}
}

// cliCommand is the command of s for urfave/cli. Help shows the visible flags.
func (s *set) cliCommand(f *filler, visible func(*entry) bool, width int) *cli.Command {
	c := &cli.Command{
		Name:               s.command,
		Usage:              commandUsage(s.command),
		UsageText:          usageText(s.command),
		CustomHelpTemplate: commandTemplate(s.command),
		HideHelpCommand:    true,
		OnUsageError:       func(_ *cli.Context, err error, _ bool) error { return err },
		Action:             func(*cli.Context) error { return nil },
	}
	if s.command == nameLaunch {
		c.Aliases = []string{"start"}
	}
	c.Flags = s.cliFlags(f, visible, width)
	return c
}

// cliFlags are the flags of s for urfave/cli, under their canonical names alone.
func (s *set) cliFlags(f *filler, visible func(*entry) bool, width int) []cli.Flag {
	var shown []*entry
	for _, e := range s.entries {
		if visible(e) {
			shown = append(shown, e)
		}
	}
	column := columnOf(shown)
	out := make([]cli.Flag, 0, len(s.entries))
	for _, e := range s.entries {
		out = append(out, &cliFlag{
			GenericFlag: &cli.GenericFlag{
				Name:     e.name,
				Usage:    e.Help,
				Category: e.Group,
				Hidden:   !slices.Contains(shown, e),
				Value:    &flagValue{entry: e, filler: f},
			},
			line: helpLine(e, column, width),
		})
	}
	return out
}

// cliFlag is a urfave/cli flag with a help line of ours.
type cliFlag struct {
	*cli.GenericFlag
	line string
}

// Names is the one name that urfave/cli knows. Its own flags look for commas and
// blanks in it every time, which is felt where flags are many.
func (f *cliFlag) Names() []string { return []string{f.Name} }

// String is the flag in help.
func (f *cliFlag) String() string { return f.line }

// help prints help of a command, or of all of smg for "", through urfave/cli.
func (in *Input) help(command, topic string) (*Command, error) {
	var out bytes.Buffer
	app := newApp(&out)
	if command == "" {
		s := newSet(nameLaunch, Table())
		app.Flags = s.cliFlags(&filler{}, func(e *entry) bool { return e.Everyday }, in.Width)
		if err := app.Run([]string{app.Name, "--help"}); err != nil {
			return nil, fmt.Errorf("printing help: %w", err)
		}
		return &Command{Verb: Print, Output: out.String()}, nil
	}
	s := newSet(command, Table())
	text, visible, err := s.topic(topic, in.Width)
	if err != nil {
		return nil, err
	}
	if text != "" && visible == nil {
		return &Command{Verb: Print, Output: text}, nil
	}
	c := s.cliCommand(&filler{}, visible, in.Width)
	c.Description = s.plannedLines(visible, in.Width)
	app.Commands = []*cli.Command{c}
	if err := app.Run([]string{app.Name, command, "--help"}); err != nil {
		return nil, fmt.Errorf("printing help: %w", err)
	}
	return &Command{Verb: Print, Output: text + out.String()}, nil
}
