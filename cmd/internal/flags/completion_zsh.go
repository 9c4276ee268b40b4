package flags

import (
	"fmt"
	"strings"
)

// zshCompletion is the script for zsh.
func zshCompletion(all []section) string {
	var commands, cases strings.Builder
	for _, c := range commandList() {
		fmt.Fprintf(&commands, "    %s\n", zshQuote(c.name+":"+strings.ReplaceAll(c.note, ":", `\:`)))
	}
	commands.WriteString("    'start:the same as launch'\n")
	for _, s := range all {
		fmt.Fprintf(&cases, "  (%s)\n    _arguments -S : \\\n", strings.Join(s.commands, "|"))
		for _, o := range s.flags {
			for i, n := range o.names {
				fmt.Fprintf(&cases, "      %s \\\n", zshQuote(zshFlag(&o, n, i == 0)))
			}
		}
		rest := "'*: :'"
		if list := wordsBehind()[s.commands[0]]; list != nil {
			rest = zshQuote("1: :(" + strings.Join(list, " ") + ")")
		} else if s.commands[0] == nameReplay {
			rest = "'*:recording:_files'"
		}
		fmt.Fprintf(&cases, "      %s\n    ;;\n", rest)
	}
	for _, c := range []string{nameHelp, nameCompletion} {
		fmt.Fprintf(&cases, "  (%s)\n    _arguments %s\n    ;;\n", c, zshQuote("1: :("+strings.Join(wordsBehind()[c], " ")+")"))
	}
	return strings.NewReplacer("@commands@", strings.TrimSuffix(commands.String(), "\n"), "@cases@", strings.TrimSuffix(cases.String(), "\n")).Replace(zshTemplate)
}

// zshFlag is a flag as _arguments wants it. Only the first of its names is shown.
func zshFlag(o *offer, name string, first bool) string {
	escape := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)
	out := "--" + name
	if o.many || !first {
		out = "*" + out
	}
	switch {
	case o.value != "":
		out += "="
	case o.choices != nil:
		out += "=-"
	}
	out += "[" + escape.Replace(o.help) + "]"
	if o.value == "" && o.choices == nil {
		return out
	}
	if o.value == "" {
		out += ":" // it may be missing
	}
	action := " "
	switch {
	case len(o.choices) > 0:
		action = "(" + strings.Join(o.choices, " ") + ")"
	case o.files():
		action = "_files"
	}
	return out + ":" + escape.Replace(o.value) + ":" + action
}

func zshQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

const zshTemplate = `#compdef smg
# Completion of smg for zsh. To have it now:
#   source <(smg completion zsh)
# and in every shell from now on, where a folder of yours is in $fpath:
#   smg completion zsh >~/.zfunc/_smg

_smg() {
  local command=launch
  local -a commands
  commands=(
@commands@
  )
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  if [[ $words[2] != -* ]]; then
    command=$words[2]
    shift words
    (( CURRENT-- ))
  fi
  case $command in
@cases@
  esac
}

if [[ $funcstack[1] == _smg ]]; then
  _smg "$@"
else
  compdef _smg smg
fi
`
