package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"smg/cmd/internal/admin"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/simcmd"
	"smg/worker"
)

// root is the repository.
const root = "../.."

// pages are all texts for people, by their path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	read := func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
		read(filepath.Join(root, name))
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// typed are the command lines of a page, words as a shell makes them: those of its
// blocks of code, and those in the text, which may leave out what a command needs.
func typed(page string) (all [][]string) {
	take := func(line string, whole bool) {
		for _, words := range shellWords(line) {
			if len(words) > 0 && strings.HasPrefix(words[0], "smg") {
				if !whole {
					words = completed(words)
				}
				all = append(all, words)
			}
		}
	}
	fenced, text := false, ""
	page = strings.ReplaceAll(page, "\\\n", " ")
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced || strings.HasPrefix(line, "    "):
			take(line, true)
		default:
			text += line
		}
	}
	for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(span[1], "smg") {
			take(span[1], false)
		}
	}
	return all
}

// completed adds what a command cannot do without to a line of a text.
func completed(words []string) []string {
	words = slices.Clone(words)
	for i, w := range words {
		if w == "LEG" {
			words[i] = "regular"
		}
	}
	has := func(one ...string) bool {
		return slices.ContainsFunc(one, func(w string) bool { return slices.Contains(words, w) })
	}
	switch {
	case has("--help", "-h") || strings.Contains(strings.Join(words, " "), "--help="):
	case has("serve") && !has("--model", "--model-path", "sim", "custom"):
		words = append(words, "--model", "model.gguf")
	case has("selector", "smg-selector") && !has("--leg"):
		words = append(words, "--leg", "regular")
	case has("replay") && len(words) == 2:
		words = append(words, "traffic.jsonl.gz")
	}
	return words
}

// shellWords takes a line apart into commands and their words. Prompts, variables
// before a command, remarks and dots that stand for more are left out.
func shellWords(line string) (commands [][]string) {
	word := regexp.MustCompile(`#.*|[|&;]+|(?:'[^']*'|"[^"]*"|[^\s|&;'"])+`)
	var words []string
	end := func() {
		commands = append(commands, words)
		words = nil
	}
	for _, w := range word.FindAllString(line, -1) {
		switch {
		case strings.ContainsAny(w[:1], "|&;"):
			end()
		case w[0] == '#':
			end()
			return commands
		case w == "…", len(words) == 0 && (strings.HasSuffix(w, "$") || strings.Contains(w, "=")):
		default:
			words = append(words, strings.NewReplacer("'", "", `"`, "").Replace(w))
		}
	}
	end()
	return commands
}

// TestDocsAreUnderstood parses and judges every command line of the pages as the program
// does. A page that tells of a flag that there is not would mislead.
func TestDocsAreUnderstood(t *testing.T) {
	lines := map[string]int{}
	for name, page := range pages(t) {
		if strings.HasPrefix(name, "docs/adr/") || name == "CHANGELOG.md" {
			continue // they tell of the past too
		}
		for _, words := range typed(page) {
			if err := judge(words); err != nil {
				t.Errorf("%s: %s: %v", name, strings.Join(words, " "), err)
			}
			lines[name]++
		}
	}
	for name, least := range map[string]int{
		"README.md": 16, "docs/getting-started.md": 15, "docs/disaggregation.md": 8, "docs/operations.md": 8, "docs/engines.md": 6,
		"docs/replay.md": 4, "docs/sim.md": 2, "docs/workers.md": 5,
	} {
		if lines[name] < least {
			t.Errorf("%s: %d command lines are found, want %d or more", name, lines[name], least)
		}
	}
}

// judge understands a command line without running it.
func judge(words []string) error {
	command := ""
	switch words[0] {
	case "smg":
		if len(words) == 2 && words[1] == watchCommand {
			return nil
		}
	case "smg-ingress", "smg-selector":
		command = strings.TrimPrefix(words[0], "smg-")
	case "smg-sim":
		return known(simcmd.Flags(), words[1:])
	default:
		return nil // a file's name, or a word that begins so
	}
	cmd, err := flags.Parse(flags.Input{Command: command, Args: words[1:], Env: func(name string) (string, bool) {
		// Of pages that say so in the text.
		return "nats://n1:4222", name == "SMG_NATS_URL" && (command != "" || len(words) > 1 && slices.Contains([]string{"ingress", "selector"}, words[1]))
	}})
	if err != nil {
		return err
	}
	switch cmd.Verb {
	case flags.RunSim:
		return known(simcmd.Flags(), cmd.SimArgs)
	case flags.RunStatus:
		return known(admin.Flags("status"), cmd.AdminArgs)
	case flags.RunWorkers:
		name := "workers"
		if len(cmd.AdminArgs) > 0 && slices.Contains([]string{"list", "add", "rm"}, cmd.AdminArgs[0]) {
			name += " " + cmd.AdminArgs[0]
		}
		return known(admin.Flags(name), cmd.AdminArgs)
	}
	return cmd.Validate(worker.CanonicalURL)
}

// known refuses flags that are not in a list.
func known(list []cli.Flag, args []string) error {
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if strings.HasPrefix(a, "--") && name != "help" &&
			!slices.ContainsFunc(list, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
			return &flags.Fault{What: "unknown flag", Where: a}
		}
	}
	return nil
}

// TestShellWords holds what the other tests read lines with to what shells do.
func TestShellWords(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       [][]string
	}{
		{"plain", "smg launch --log-json", [][]string{{"smg", "launch", "--log-json"}}},
		{"prompt and variables", "gw$ A=b C='d e' smg serve # what for", [][]string{{"smg", "serve"}}},
		{"quotes", `smg serve --engine-cmd 'x --y {port}' "a b"`, [][]string{{"smg", "serve", "--engine-cmd", "x --y {port}", "a b"}}},
		{"several", "smg-sim --port 1 & smg status | jq .; ls", [][]string{{"smg-sim", "--port", "1"}, {"smg", "status"}, {"jq", "."}, {"ls"}}},
		{"dots", "smg ingress --nats-url nats://n1 …", [][]string{{"smg", "ingress", "--nats-url", "nats://n1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, shellWords(tt.line)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// anchors are the headings of a page as links name them.
func anchors(page string) (all []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		slug := strings.ToLower(strings.TrimSpace(h[1]))
		slug = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(slug, "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// TestDocsLinks follows every link between the pages, and every path of one in the text.
func TestDocsLinks(t *testing.T) {
	all := pages(t)
	links := 0
	for name, page := range all {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(page, -1) {
			if regexp.MustCompile(`^[a-z]+:`).MatchString(m[1]) {
				continue // leads out of the repository
			}
			links++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			} else if anchor != "" && !slices.Contains(anchors(all[target]), anchor) {
				t.Errorf("%s: %s: no such heading", name, m[1])
			}
		}
		for _, path := range regexp.MustCompile(`\bdocs/[a-z/-]+\.md\b`).FindAllString(page, -1) {
			if all[path] == "" {
				t.Errorf("%s: there is no %s", name, path)
			}
		}
		if dir, file := filepath.Split(name); dir == "docs/" && !strings.Contains(all["README.md"], "("+name+")") {
			t.Errorf("README.md does not lead to %s", file)
		}
	}
	if links < 40 {
		t.Errorf("%d links are found", links)
	}
}
