package flags

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"smg/policy"
)

// others stand for the flags of commands that have their own.
func others() map[string][]cli.Flag {
	return map[string][]cli.Flag{
		nameSim:     {&cli.IntFlag{Name: "engines", Usage: "`NUMBER` of engines: it's [n]"}, &cli.BoolFlag{Name: "instant", Usage: "at once"}},
		nameWorkers: {&cli.StringFlag{Name: "gateway", Usage: "`URL` of the gateway"}},
		nameStatus:  {&cli.StringFlag{Name: "gateway", Usage: "`URL` of the gateway"}},
	}
}

// completer completes the last word of a line in a real shell.
type completer func(t *testing.T, words ...string) []string

// shellOf is a shell with the script loaded, if it is installed.
func shellOf(t *testing.T, shell string) (program, script string) {
	t.Helper()
	program, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("no %s here", shell)
	}
	script = filepath.Join(t.TempDir(), "smg."+shell)
	if err := os.WriteFile(script, []byte(Completion(shell, others())), 0o600); err != nil {
		t.Fatal(err)
	}
	return program, script
}

func output(t *testing.T, name string, args ...string) []string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%s", name, err, stderr.String())
	}
	return strings.Fields(string(out))
}

func TestCompletion(t *testing.T) {
	t.Run("bash", func(t *testing.T) {
		bash, script := shellOf(t, "bash")
		testCompletion(t, func(t *testing.T, words ...string) []string {
			t.Helper()
			// As bash itself would split the line: --flag=value is three words.
			var split []string
			for _, w := range words {
				name, value, ok := strings.Cut(w, "=")
				split = append(split, name)
				if ok {
					split = append(split, "=")
				}
				if value != "" {
					split = append(split, value)
				}
			}
			run := `set -u; source "$1"; shift; complete -p smg >/dev/null || exit; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _smg; echo "${COMPREPLY[@]-}"`
			return output(t, bash, slices.Concat([]string{"--norc", "-c", run, "bash", script, "smg"}, split)...)
		})
	})
	t.Run("fish", func(t *testing.T) {
		fish, script := shellOf(t, "fish")
		testCompletion(t, func(t *testing.T, words ...string) []string {
			t.Helper()
			run := "source " + script + "; complete -C '" + strings.Join(append([]string{"smg"}, words...), " ") + "' | string replace -r '\\t.*' '' | string replace -r '^--.*=' ''; true"
			return output(t, fish, "-N", "-c", run)
		})
	})
	t.Run("zsh", func(t *testing.T) {
		zsh, script := shellOf(t, "zsh")
		testCompletion(t, zshCompleter(zsh, script))
	})
}

// testCompletion asks a shell what may come next.
func testCompletion(t *testing.T, complete completer) {
	t.Helper()
	sorted := func(words []string) []string { return slices.Sorted(slices.Values(words)) }
	for _, tt := range []struct {
		name  string
		words []string
		want  []string
	}{
		{"command", []string{"st"}, []string{"start", "status"}},
		{"flag", []string{"launch", "--worker-st"}, []string{"--worker-startup-check-interval", "--worker-startup-delay", "--worker-startup-timeout-secs"}},
		{"bare flag", []string{"--poli"}, []string{"--policy"}},
		{"flag of the gateway in serve", []string{"serve", "--router-poli"}, []string{"--router-policy"}},
		{"no flag of launch in serve", []string{"serve", "--poli"}, nil},
		{"no planned flag", []string{"launch", "--history"}, nil},
		{"check", []string{"check", "--pd-dis"}, []string{"--pd-disaggregation"}},
		{"selector", []string{"selector", "--leg", "p"}, []string{"prefill"}},
		{"values", []string{"launch", "--policy", ""}, policy.Names()},
		{"a value that nobody knows", []string{"serve", "--router-kv-indexer-ttl-secs", ""}, nil},
		{"values behind =", []string{"serve", "--router-policy="}, policy.Names()},
		{"value behind =", []string{"serve", "--backend=sg"}, []string{"sglang"}},
		{"topic of help", []string{"serve", "--help=lo"}, []string{"loads", "logs"}},
		{"start", []string{"start", "--cache-index", ""}, []string{"tree", "hash"}},
		{"value that works", []string{"serve", "--backend", "tok"}, nil},
		{"flag behind a value", []string{"launch", "--policy", "random", "--prometheus-p"}, []string{"--prometheus-port"}},
		{"sim", []string{"sim", "--eng"}, []string{"--engines"}},
		{"workers", []string{"workers", ""}, []string{"add", "list", "rm"}},
		{"help", []string{"help", "se"}, []string{"selector", "serve"}},
		{"completion", []string{"completion", ""}, []string{"bash", "fish", "zsh"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(sorted(tt.want), sorted(complete(t, tt.words...)), cmpEmpty()); diff != "" {
				t.Errorf("smg %q (-want +got):\n%s", tt.words, diff)
			}
		})
	}
}

func TestCompletionCommand(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		code       int
		want       string
	}{
		{"no shell", "completion", 2, "smg completion bash, zsh or fish"},
		{"unknown shell", "completion csh", 2, "use one of bash, zsh, fish"},
		{"too much", "completion bash zsh", 2, "write smg completion bash"},
		{"help", "completion --help", 0, "Usage: smg completion SHELL"},
		{"help completion", "help completion", 0, "Usage: smg completion SHELL"},
		{"man", "man", 0, ".TH SMG 1"},
		{"man of something", "man serve", 2, "write smg man"},
		{"help man", "help man", 0, "Usage: smg man"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, code, text := run(nil, strings.Fields(tt.line)...); code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("exit %d\n%.300s", code, text)
			}
		})
	}
}

// zshCompleter types a line and a tab into a shell of its own, which prints what it
// would offer.
func zshCompleter(zsh, script string) completer {
	return func(t *testing.T, words ...string) []string {
		t.Helper()
		setup := filepath.Join(t.TempDir(), "setup.zsh")
		if err := os.WriteFile(setup, []byte(strings.ReplaceAll(zshSetup, "SCRIPT", script)), 0o600); err != nil {
			t.Fatal(err)
		}
		return output(t, zsh, "-f", "-c", zshProbe, "zsh", setup, strings.Join(append([]string{"smg"}, words...), " "))
	}
}

const zshSetup = `PROMPT=
autoload -U compinit
compinit -u -D
source SCRIPT
bindkey '^M' undefined-key
bindkey '^I' complete-word
before () { print BEGIN }
after () { print END; exit }
compprefuncs=(before)
comppostfuncs=(after)
compadd () {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	local -a hits
	builtin compadd -A hits "$@"
	print -l -- $hits
	builtin compadd "$@"
}
print READY
`

const zshProbe = `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "source $1"
line=
until [[ $line == READY* ]]; do zpty -r z line; done
zpty -w -n z "$2"$'\t'
on=
while zpty -r z line; do
	case $line in
	(*BEGIN*) on=1 ;;
	(END*) break ;;
	(*) [[ -z $on ]] || print -r -- ${${line%%$'\r'*}%=} ;;
	esac
done
`
