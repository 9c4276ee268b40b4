package admin

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// table prints rows under a head of names: in columns for people, else with a tab
// between two fields. Fields hold no control characters.
func (p *program) table(head []string, rows [][]string) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', 0)
	line := func(fields []string) {
		clean := make([]string, len(fields))
		for i, f := range fields {
			clean[i] = plain(f)
		}
		text := strings.Join(clean, "\t")
		if p.people {
			fmt.Fprintln(w, text) //nolint:errcheck // Flush has the error
			return
		}
		p.say("%s", text)
	}
	line(head)
	for _, r := range rows {
		line(r)
	}
	return w.Flush()
}

// plain is one field: what would end it, or move a terminal's cursor, is a blank.
func plain(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// say prints a line.
func (p *program) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // nobody is left to tell
}

// summary prints a line for people alone.
func (p *program) summary(format string, args ...any) {
	if p.people {
		p.say(format, args...)
	}
}
