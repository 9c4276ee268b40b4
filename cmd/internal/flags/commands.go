package flags

import (
	"fmt"
	"strings"
)

// command is one of smg's, and what it is for.
type command struct{ name, note string }

// commandList are the commands, in the order of help.
func commandList() []command {
	return []command{
		{nameLaunch, "a gateway in front of engines that run already (flags alone mean launch)"},
		{nameCheck, "what launch would do with the same flags; starts nothing, asks nobody"},
		{nameServe, "start engines, and a gateway in front of them"},
		{nameIngress, "the API alone, for selectors on the same NATS server"},
		{nameSelector, "the selector of one leg alone, on the same NATS server"},
		{nameSim, "a simulated engine"},
		{nameReplay, "policies over recorded traffic and simulated engines"},
		{nameWorkers, "list, add and remove the workers of a gateway that runs"},
		{nameStatus, "how a gateway and its services are"},
		{nameHelp, "help of a command"},
		{nameCompletion, "a script that completes smg's command lines, for bash, zsh or fish"},
		{nameMan, "the manual page"},
	}
}

// commandNames are the words that may stand first, aliases included.
func commandNames() []string {
	var names []string
	for _, c := range commandList() {
		names = append(names, c.name)
		if c.name == nameLaunch {
			names = append(names, "start")
		}
	}
	return names
}

// about says that a command tells of smg alone.
func (c command) about() bool {
	return c.name == nameHelp || c.name == nameCompletion || c.name == nameMan
}

// commandLines are the commands as help shows them.
func commandLines() string {
	var out strings.Builder
	for _, c := range commandList() {
		if c.name == nameCompletion || c.name == nameMan {
			continue // the last lines name them
		}
		fmt.Fprintf(&out, "  %-9s %s\n", c.name, c.note)
	}
	return out.String()
}
