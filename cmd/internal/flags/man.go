package flags

import (
	"fmt"
	"strings"
)

const manHelp = `Usage: smg man
Prints the manual page: smg man | man -l -
`

// manCommand is "smg man".
func manCommand(rest []string) (*Command, error) {
	switch {
	case len(rest) == 0:
		return &Command{Verb: Print, Output: Man()}, nil
	case rest[0] == "-h" || rest[0] == "--help":
		return &Command{Verb: Print, Output: manHelp}, nil
	}
	return nil, usage(rest[0], "write smg man", "unexpected argument")
}

// Man is the manual page of smg, in the language of man(7).
func Man() string {
	var out strings.Builder
	out.WriteString(manHead)
	for _, c := range commandList() {
		fmt.Fprintf(&out, ".TP\n.B %s\n%s\n", roff(c.name), roffLine(c.note+"."))
	}
	out.WriteString(manFlags)
	table := Table()
	for _, group := range groupsOf(table) {
		fmt.Fprintf(&out, ".SS %s\n", roff(group))
		for i := range table {
			if d := &table[i]; d.Group == group && !d.Later {
				d.paragraph(&out)
			}
		}
	}
	out.WriteString(".SS planned\nKnown by name, and not supported yet: each is accepted with its default value and refused with any other.\n.PP\n")
	var planned []string
	for _, d := range table {
		if d.Later {
			planned = append(planned, `\fB`+roff("--"+d.Name)+`\fR`)
		}
	}
	out.WriteString(strings.Join(planned, ",\n") + ".\n")
	out.WriteString(manTail)
	return out.String()
}

// paragraph writes d as an item of a list.
func (d *Def) paragraph(out *strings.Builder) {
	names := []string{`\fB` + roff("--"+d.Name) + `\fR`}
	for _, a := range d.Aliases {
		names = append(names, `\fB`+roff("--"+a)+`\fR`)
	}
	head := strings.Join(names, ", ")
	if d.Value != "" {
		head += ` \fI` + roff(d.Value) + `\fR`
	}
	text := d.Help
	if d.Default != "" {
		text += " Default: " + d.Default + "."
	}
	if all := append(append([]string(nil), d.Env...), d.Presence...); len(all) > 0 {
		text += " Variable: " + strings.Join(all, ", ") + "."
	}
	fmt.Fprintf(out, ".TP\n%s\n%s\nIn %s.\n", head, roffLine(text), roff(strings.ReplaceAll(d.foundIn(), "`", "")))
}

// roff escapes what roff would read as its own.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
}

// roffLine escapes a line that may begin with what roff takes for a request.
func roffLine(s string) string {
	s = roff(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

const manHead = `.\" Written by "make golden" from the tables of cmd/internal/flags; do not edit.
.TH SMG 1 "" smg "User Commands"
.SH NAME
smg \- one address in front of many inference engines
.SH SYNOPSIS
.SY smg
.RI [ flags ]
.YS
.SY "smg serve"
.RI [ flags ]
.RI [ "engine flags" ]
.RB [ \-\-
.IR "engine flags" ]
.YS
.SY smg
.I command
.RI [ flags ]
.YS
.SH DESCRIPTION
smg stands in front of LLM inference engines and decides, for every request, which worker serves it.
It starts engines and serves them behind one OpenAI-compatible address
.RB ( serve ),
or serves engines that run already
.RB ( launch ,
which flags alone mean too).
.SH EXAMPLES
.nf
.B smg serve \-\-backend sim \-\-data\-parallel\-size 4
.B smg serve \-\-backend vllm \-\-model MODEL \-\-data\-parallel\-size 2
.B smg \-\-worker\-urls http://w1:8000 http://w2:8000
.B smg launch \-\-pd\-disaggregation \-\-prefill http://p1:8000 8998 \-\-decode http://d1:8000
.fi
.SH COMMANDS
`

const manFlags = `.SH FLAGS
A flag and its value may be two words or one with "=".
A placeholder with dots takes all words up to the next flag.
In
.B serve
the gateway's flags begin with
.BR \-\-router\- ,
and what
.B serve
does not know is passed to the engines.
.B check
takes the flags of
.BR launch .
.PP
.B smg
.I command
.B \-\-help=all
shows the flags of one command,
.BR \-\-help=policy
what there is to choose workers by,
and
.BI \-\-help= WORD
what has to do with a word.
`

const manTail = `.SH ENVIRONMENT
Every flag of
.BR launch ,
.B ingress
and
.B selector
is also a variable:
.B SMG_FLAG_POLICY
is
.BR \-\-policy .
In
.B serve
the same variables count for the flags that begin with
.BR \-\-router\- .
A flag that is typed comes before its variable, an empty variable counts as not set, and the value of a list is split at blanks.
.SH EXIT STATUS
.TP
.B 0
It was stopped, and all ended well.
.TP
.B 1
The configuration was refused, or start or running failed.
.TP
.B 2
The command line was not understood.
.TP
.B 128 and more
.B serve
was stopped by the signal of this number less 128.
.SH SEE ALSO
The pages in
.I docs/
of the source:
.IR getting\-started.md ,
.IR policies.md ,
.IR disaggregation.md ,
.IR operations.md .
`
