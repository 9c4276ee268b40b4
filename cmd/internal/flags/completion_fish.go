package flags

import (
	"fmt"
	"slices"
	"strings"
)

// fishCompletion is the script for fish.
func fishCompletion(all []section) string {
	var out strings.Builder
	out.WriteString(fishHead)
	for _, c := range commandList() {
		fmt.Fprintf(&out, "complete -c smg -n __smg_first -a %s -d %s\n", c.name, fishQuote(c.note))
	}
	fmt.Fprintf(&out, "complete -c smg -n __smg_first -a start -d 'the same as launch'\n")
	for _, c := range commandList() {
		if list := wordsBehind()[c.name]; list != nil {
			fmt.Fprintf(&out, "complete -c smg -n '__smg_second %s' -a %s\n", c.name, fishQuote(strings.Join(list, " ")))
		}
	}
	fmt.Fprintf(&out, "complete -c smg -n '__smg_is %s' -F\n", nameReplay)
	for _, line := range fishFlags(all) {
		fmt.Fprintf(&out, "complete -c smg -n '__smg_is %s' %s\n", strings.Join(line.commands, " "), line.flag)
	}
	return out.String()
}

// fishLine is a flag, and the commands that have it.
type fishLine struct {
	commands []string
	flag     string
}

// fishFlags are the flags of all commands, a line for what is alike in several.
func fishFlags(all []section) []fishLine {
	var lines []fishLine
	for _, s := range all {
		for _, o := range s.flags {
			flag := fishFlag(&o)
			if at := slices.IndexFunc(lines, func(l fishLine) bool { return l.flag == flag }); at >= 0 {
				lines[at].commands = append(lines[at].commands, s.commands...)
				continue
			}
			lines = append(lines, fishLine{slices.Clone(s.commands), flag})
		}
	}
	return lines
}

// fishFlag is what complete says of a flag.
func fishFlag(o *offer) string {
	out := "-l " + o.names[0]
	switch {
	case o.value == "" && len(o.choices) > 0:
		out += " -a " + fishQuote(strings.Join(o.choices, " "))
	case o.value == "":
	case len(o.choices) > 0:
		out += " -x -a " + fishQuote(strings.Join(o.choices, " "))
	case o.files():
		out += " -r -F"
	default:
		out += " -x"
	}
	return out + " -d " + fishQuote(o.help)
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

const fishHead = `# Completion of smg for fish. To have it now:
#   smg completion fish | source
# and in every shell from now on:
#   smg completion fish >~/.config/fish/completions/smg.fish

function __smg_first
    test (count (commandline -opc)) -eq 1
end

function __smg_second
    set -l words (commandline -opc)
    test (count $words) -eq 2; and test $words[2] = $argv[1]
end

# Whether the command is one of these; flags alone mean launch.
function __smg_is
    set -l words (commandline -opc)
    set -l command launch
    if set -q words[2]; and not string match -q -- '-*' $words[2]
        set command $words[2]
    end
    contains -- $command $argv
end

complete -c smg -f
`
