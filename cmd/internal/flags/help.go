package flags

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// rootTemplate is the first help screen; it fits on one page.
func rootTemplate() string {
	return `smg - one address in front of many inference engines

Examples:
  smg serve --backend sim --data-parallel-size 4
  smg serve --backend llamacpp --model model.gguf --data-parallel-size 2
  smg --worker-urls http://w1:8000 http://w2:8000
  smg launch --policy consistent_hashing --worker-urls http://w1:8000 http://w2:8000
  smg serve --backend sim --prefill-replicas 2 --decode-replicas 2
  smg launch --pd-disaggregation --prefill http://p1:8000 8998 --decode http://d1:8000
  smg launch --epd-disaggregation --encode http://e1:8000 --prefill http://p1:8000 --decode http://d1:8000

Commands:
` + commandLines() + `
Everyday flags of launch (serve takes them as --router-...):
{{range .VisibleFlags}}{{if ne (index .Names 0) "help"}}{{.}}
{{end}}{{end}}
More: smg launch --help, smg serve --help, smg --version, smg completion SHELL, smg man
      smg launch --help=groups, --help=<group>, --help=<flag or word>, --help=all
`
}

// commandTemplate is the help of one command with the flags that are visible.
func commandTemplate(command string) string {
	return `Usage: {{.UsageText}}
{{range .VisibleFlagCategories}}{{if .Name}}
{{.Name}}:
{{range .Flags}}{{.}}
{{end}}{{end}}{{end}}{{.Description}}
More: smg ` + command + ` --help=groups, --help=<group>, --help=<flag or word>, --help=all
`
}

func commandUsage(command string) string {
	switch command {
	case nameCheck:
		return "what launch would do"
	case nameServe:
		return "start engines, and a gateway in front of them"
	case nameIngress:
		return "the API alone"
	case nameSelector:
		return "the selector of one leg alone"
	case nameReplay:
		return "policies over recorded traffic"
	}
	return "a gateway in front of engines that run already"
}

func usageText(command string) string {
	const variables = "\nEvery flag can also be set by a variable: SMG_FLAG_POLICY is --policy, SMG_FLAG_WORKER_URLS --worker-urls."
	switch command {
	case nameServe:
		return `smg serve [flags] [engine flags] [-- engine flags]
Flags of the gateway are written --router-NAME; flags that smg does not know are passed to the engines.`
	case nameCheck:
		return "smg check [flags of launch] (or smg launch --dry-run)\nJudges the flags and prints the legs, their policies and workers, and where workers meet. Nothing is started, and nobody is asked.\nExit code 1: a value is wrong, or a worker would never be chosen; 2: the command line is not understood." + variables
	case nameIngress:
		return "smg ingress --nats-url URL [flags] (or smg-ingress)\nThe API of a gateway whose legs are selected for by other processes on the same NATS." + variables
	case nameSelector:
		return "smg selector --leg LEG --nats-url URL [flags] (or smg-selector)\nSelects the workers of one leg. Several may run for a leg." + variables
	case nameReplay:
		return "smg replay [--policy POLICY[,POLICY]] [flags] FILE...\nRuns recordings (smg launch --record FILE) again, over simulated engines in virtual time, and prints how policies would have done.\nThe flags that tune policies are those of launch."
	}
	return "smg launch [flags]" + variables
}

// left is a flag and its placeholder, all spellings.
func left(e *entry) string {
	names := e.names()
	for i, n := range names {
		names[i] = "--" + n
	}
	out := "  " + strings.Join(names, ", ")
	if e.Value != "" {
		out += " " + e.Value
	}
	return out
}

// columnOf is where the sentences of the shown flags begin.
func columnOf(shown []*entry) int {
	const (
		most  = 44
		least = 8 // where all names are too long
	)
	column := least
	for _, e := range shown {
		if n := utf8.RuneCountInString(left(e)) + 2; n <= most {
			column = max(column, n)
		}
	}
	return column
}

// helpLine is one flag in help: spellings, placeholder, sentence, default. With a
// width, the sentence is wrapped under itself.
func helpLine(e *entry, column, width int) string {
	text := e.Help
	if e.Default != "" {
		text += " [" + e.Default + "]"
	}
	if env := slices.Concat(e.Env, e.Presence); len(env) > 0 && !e.Later {
		text += " ($" + strings.Join(env, ", $") + ")"
	}
	head := left(e)
	if n := utf8.RuneCountInString(head); n+2 <= column {
		head += strings.Repeat(" ", column-n)
	} else {
		head += "\n" + strings.Repeat(" ", column)
	}
	return head + strings.Join(wrap(text, width-column), "\n"+strings.Repeat(" ", column))
}

// wrap breaks text at blanks into lines of at most width characters; too little room
// leaves it whole.
func wrap(text string, width int) []string {
	const least = 20
	if width < least {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// groupPlanned is where help shows the flags that are not supported yet.
const groupPlanned = "planned"

// topic resolves --help=topic: text to print first, and which flags to show; no
// visible function means that the text is all. "" shows the everyday flags.
func (s *set) topic(topic string, width int) (text string, visible func(*entry) bool, err error) {
	word := strings.ToLower(strings.TrimLeft(strings.ReplaceAll(topic, "_", "-"), "-"))
	known := slices.Concat(s.entries, s.planned)
	switch {
	case topic == "":
		return "", func(e *entry) bool { return e.Everyday && !e.Later }, nil
	case word == groupPlanned:
		return "", func(e *entry) bool { return e.Later }, nil
	case word == "all":
		return "", func(*entry) bool { return true }, nil
	case word == "groups":
		return s.groupList(width), nil, nil
	case word == groupPolicy:
		return policyList(s, width), inGroup(groupPolicy), nil
	case slices.ContainsFunc(known, inGroup(word)):
		return "", inGroup(word), nil
	}
	if e := s.lookup(word); e != nil {
		return "", func(o *entry) bool { return o == e }, nil
	}
	mentions := func(e *entry) bool {
		return strings.Contains(e.name, word) || strings.Contains(strings.ToLower(e.Help), word)
	}
	if !slices.ContainsFunc(known, mentions) {
		return "", nil, usage("--help="+topic, "smg "+s.command+" --help=groups lists the groups", "no flag has to do with that")
	}
	return "", mentions, nil
}

func inGroup(name string) func(*entry) bool {
	return func(e *entry) bool { return e.Group == name }
}

// groupList names the groups and their flags.
func (s *set) groupList(width int) string {
	var order []string
	flags := map[string][]string{}
	for _, e := range s.entries {
		if !slices.Contains(order, e.Group) {
			order = append(order, e.Group)
		}
		flags[e.Group] = append(flags[e.Group], "--"+e.name)
	}
	var out strings.Builder
	const indent = "            "
	fmt.Fprintf(&out, "Groups of flags (smg %s --help=<group>):\n", s.command)
	for _, g := range order {
		fmt.Fprintf(&out, "  %-9s %s\n", g, strings.Join(wrap(strings.Join(flags[g], " "), width-len(indent)), "\n"+indent))
	}
	if len(s.planned) > 0 {
		text := fmt.Sprintf("%d flags that are known by name, and not supported yet", len(s.planned))
		fmt.Fprintf(&out, "  %-9s %s\n", groupPlanned, strings.Join(wrap(text, width-len(indent)), "\n"+indent))
	}
	return out.String()
}

// plannedLines are the flags among those of a topic that are not supported yet.
func (s *set) plannedLines(visible func(*entry) bool, width int) string {
	shown := slices.DeleteFunc(slices.Clone(s.planned), func(e *entry) bool { return !visible(e) })
	if len(shown) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\n" + groupPlanned + " (not supported yet, accepted with their default values alone):\n")
	column := columnOf(shown)
	for _, e := range shown {
		out.WriteString(helpLine(e, column, width) + "\n")
	}
	return out.String()
}
