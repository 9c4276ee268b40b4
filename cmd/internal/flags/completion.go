package flags

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// shells are those that [Completion] writes for.
func shells() []string { return []string{"bash", "zsh", "fish"} }

// Completion is the script that has a shell complete the commands, flags and values of
// smg. It asks smg nothing while somebody types. others are the flags of the commands
// that have them from elsewhere.
func Completion(shell string, others map[string][]cli.Flag) string {
	sections := sections(others)
	switch shell {
	case "bash":
		return bashCompletion(sections)
	case "zsh":
		return zshCompletion(sections)
	}
	return fishCompletion(sections)
}

// section is commands with the flags that all of them have.
type section struct {
	commands []string
	flags    []offer
}

// offer is a flag as a shell completes it.
type offer struct {
	names   []string // after the dashes, the one to offer first
	help    string
	value   string   // placeholder, empty if the flag takes no value
	choices []string // values, if they can be listed; without a placeholder only behind "="
	many    bool     // may be given again
}

// files says whether the value is the name of a file or folder.
func (o *offer) files() bool {
	return slices.Contains([]string{"FILE", "FILE...", "PATH", "DIR", "MODEL"}, o.value)
}

// sections are all flags. That of launch is the first: what begins with a flag is
// launch too.
func sections(others map[string][]cli.Flag) []section {
	var all []section
	for _, command := range []string{nameLaunch, nameServe, nameIngress, nameSelector, nameReplay} {
		one := section{commands: []string{command}}
		if command == nameLaunch {
			one.commands = append(one.commands, "start", nameCheck)
		}
		for _, e := range newSet(command, Table()).entries {
			o := offer{names: e.names(), help: e.Help, value: e.Value, choices: e.offered(), many: e.Kind != Bool && e.Kind != Scalar}
			if e.Name == "health-check-endpoint" {
				o.value = "URL PATH" // no path of a file
			}
			one.flags = append(one.flags, o)
		}
		all = append(all, one)
	}
	for _, command := range []string{nameSim, nameWorkers, nameStatus} {
		one := section{commands: []string{command}}
		for _, f := range others[command] {
			one.flags = append(one.flags, offerOf(f))
		}
		all = append(all, one)
	}
	for i := range all {
		help := offer{names: []string{"help"}, help: "Show help."}
		if configured(all[i].commands[0]) {
			help.choices = helpTopics()
		}
		all[i].flags = append(all[i].flags, help)
	}
	return all
}

// offerOf reads a flag of urfave/cli.
func offerOf(f cli.Flag) offer {
	o := offer{names: f.Names(), many: true}
	if d, ok := f.(cli.DocGenerationFlag); ok {
		o.help = strings.ReplaceAll(d.GetUsage(), "`", "")
		if d.TakesValue() {
			o.value = "VALUE"
		}
	}
	return o
}

// wordsBehind are the words that may stand behind a command.
func wordsBehind() map[string][]string {
	return map[string][]string{
		nameHelp: helpedCommands(), nameCompletion: shells(), nameWorkers: {"list", "add", "rm"},
	}
}

// helpedCommands are the commands that help knows.
func helpedCommands() []string {
	var all []string
	for _, c := range commandList() {
		if !c.about() {
			all = append(all, c.name)
		}
	}
	return all
}

// helpTopics are what "--help=" of launch and serve is completed to.
func helpTopics() []string {
	return append([]string{"all", "groups", groupPlanned}, groupsOf(Table())...)
}

const completionHelp = `Usage: smg completion SHELL
Prints a script that completes commands, flags and values of smg. SHELL is bash, zsh or fish; the script's first lines say how to load it.
`

// completionCommand is "smg completion SHELL".
func completionCommand(rest []string) (*Command, error) {
	switch {
	case len(rest) == 0:
		return nil, usage("", "write smg completion bash, zsh or fish", "no shell is named")
	case rest[0] == "-h" || rest[0] == "--help":
		return &Command{Verb: Print, Output: completionHelp}, nil
	case len(rest) > 1:
		return nil, usage(rest[1], "write smg completion "+rest[0], "unexpected argument")
	case !slices.Contains(shells(), rest[0]):
		return nil, usage(rest[0], "use one of "+strings.Join(shells(), ", "), "unknown shell")
	}
	return &Command{Verb: PrintCompletion, Shell: rest[0]}, nil
}
