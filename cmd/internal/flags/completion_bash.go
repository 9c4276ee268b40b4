package flags

import (
	"fmt"
	"slices"
	"strings"
)

// bashCompletion is the script for bash 4 and newer.
func bashCompletion(all []section) string {
	var values, words, behind strings.Builder
	for _, s := range all {
		fmt.Fprintf(&words, "\t%s) words='%s' ;;\n", s.commands[0], strings.Join(typed(s.flags), " "))
		for _, v := range valuesOf(s) {
			fmt.Fprintf(&values, "\t%s)\n\t\t%s\n\t\treturn\n\t\t;;\n", strings.Join(v.patterns, " | "), v.action)
		}
	}
	for _, c := range commandList() {
		if list := wordsBehind()[c.name]; list != nil {
			fmt.Fprintf(&behind, "\t\t%s) _smg_offer '%s' ;;\n", c.name, strings.Join(list, " "))
		}
	}
	return strings.NewReplacer("@commands@", strings.Join(commandNames(), " "), "@topics@", strings.Join(helpTopics(), " "),
		"@values@\n", values.String(), "@words@\n", words.String(), "@behind@\n", behind.String(), "@files@", bashFiles).Replace(bashTemplate)
}

// bashFiles has bash complete names of files.
const bashFiles = "compopt -o default 2>/dev/null"

// bashValues are flags whose values are completed alike.
type bashValues struct {
	patterns []string
	action   string
}

// valuesOf are the flags of s that take values.
func valuesOf(s section) (all []bashValues) {
	for _, o := range s.flags {
		if o.value == "" {
			continue
		}
		action := "_smg_offer '" + strings.Join(o.choices, " ") + "'"
		if o.files() {
			action = bashFiles
		}
		at := slices.IndexFunc(all, func(v bashValues) bool { return v.action == action })
		if at < 0 {
			at = len(all)
			all = append(all, bashValues{action: action})
		}
		for _, n := range o.names {
			all[at].patterns = append(all[at].patterns, s.commands[0]+":--"+n)
		}
	}
	return all
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
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=launch words= joined= i
	COMPREPLY=()
	# bash makes three words of --flag=value.
	if [[ $cur == = ]]; then
		cur=
		joined=yes
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
		joined=yes
	fi
	if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then
		_smg_offer '@commands@'
		return
	fi
	case ${COMP_WORDS[1]} in
	-* | start | check) ;; # these have the flags of launch
	*) command=${COMP_WORDS[1]} ;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then # what follows is the engines'
			@files@
			return
		fi
	done
	if [[ $prev == --help && $joined ]]; then
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
	[[ $command != replay ]] || @files@
}

complete -F _smg smg
`
