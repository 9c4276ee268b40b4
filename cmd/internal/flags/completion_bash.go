package flags

import (
	"fmt"
	"strings"
)

// bashCompletion is the script for bash 4 and newer.
func bashCompletion(all []section) string {
	var values, words strings.Builder
	for _, s := range all {
		fmt.Fprintf(&words, "\t%s) words='%s' ;;\n", strings.Join(s.commands, " | "), strings.Join(typed(s.flags), " "))
		for _, o := range s.flags {
			var patterns []string
			for _, command := range s.commands {
				for _, n := range o.names {
					patterns = append(patterns, command+":--"+n)
				}
			}
			pattern := strings.Join(patterns, " | ")
			switch {
			case o.value == "":
			case o.files():
				fmt.Fprintf(&values, "\t%s) compopt -o default 2>/dev/null && return ;;\n", pattern)
			default:
				fmt.Fprintf(&values, "\t%s) _smg_offer '%s' && return ;;\n", pattern, strings.Join(o.choices, " "))
			}
		}
	}
	var behind strings.Builder
	for _, c := range commandList() {
		if list := wordsBehind()[c.name]; list != nil {
			fmt.Fprintf(&behind, "\t\t%s) _smg_offer '%s' && return ;;\n", c.name, strings.Join(list, " "))
		}
	}
	return strings.NewReplacer("@commands@", strings.Join(commandNames(), " "), "@topics@", strings.Join(helpTopics(), " "),
		"@values@", strings.TrimSuffix(values.String(), "\n"), "@words@", strings.TrimSuffix(words.String(), "\n"),
		"@behind@", strings.TrimSuffix(behind.String(), "\n")).Replace(bashTemplate)
}

// typed are the flags as they are typed.
func typed(flags []offer) []string {
	out := make([]string, len(flags))
	for i, o := range flags {
		out[i] = "--" + o.names[0]
	}
	return out
}

const bashTemplate = `# Completion of smg for bash. To have it now:
#   source <(smg completion bash)
# and in every shell from now on:
#   smg completion bash >~/.local/share/bash-completion/completions/smg

_smg_offer() {
	COMPREPLY=($(compgen -W "$1" -- "$cur"))
}

_smg() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=launch words= i
	COMPREPLY=()
	# bash makes three words of --flag=value.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then
		_smg_offer '@commands@'
		return
	fi
	[[ ${COMP_WORDS[1]} == -* ]] || command=${COMP_WORDS[1]}
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then # what follows is the engines'
			compopt -o default 2>/dev/null
			return
		fi
	done
	if [[ $prev == --help ]]; then
		_smg_offer '@topics@'
		return
	fi
	case $command:$prev in
@values@
	esac
	case $command in
@words@
	esac
	if [[ $cur == -* ]]; then
		_smg_offer "$words"
		return
	fi
	if ((COMP_CWORD == 2)); then
		case $command in
@behind@
		esac
	fi
	[[ $command != replay ]] || compopt -o default 2>/dev/null
}

complete -F _smg smg
`
