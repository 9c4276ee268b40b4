package tokens

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is what is said of a model's files: by the operator's flags, or by the labels
// of a worker.
type Source struct {
	// Tokenizer and Model are files or folders, or names of models on the hub of which
	// there is a copy here. Tokenizer counts first. Either may be empty.
	Tokenizer, Model string
	// Ends and Context are as engines report them; none and 0 where they do not.
	Ends    []uint32
	Context int
}

func (s Source) same(o Source) bool {
	return s.Tokenizer == o.Tokenizer && s.Model == o.Model && s.Context == o.Context && slices.Equal(s.Ends, o.Ends)
}

func (s Source) names() []string {
	var names []string
	for _, n := range []string{s.Tokenizer, s.Model} {
		if n != "" {
			names = append(names, n)
		}
	}
	return names
}

// find is where the files of a model are: the first of names that is here.
func find(hub string, names []string) (string, error) {
	if len(names) == 0 {
		return "", fmt.Errorf("nobody says where its tokenizer is: name it with --tokenizer-path or --model-path")
	}
	for _, n := range names {
		if has(n) {
			return n, nil
		}
		if path := snapshot(hub, n); path != "" {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no tokenizer at %s on this machine: name a folder with --tokenizer-path", strings.Join(names, " or "))
}

// has reports whether a tokenizer is at path.
func has(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return true
	}
	_, err = os.Stat(filepath.Join(path, "tokenizer.json"))
	return err == nil
}

// snapshot is the folder of a copy of a model, as the hub's own tools keep them, ""
// if there is none: models--ORG--NAME/snapshots/REVISION, where refs/main names the
// revision.
func snapshot(hub, name string) string {
	org, model, ok := strings.Cut(name, "/")
	if hub == "" || !ok || strings.ContainsAny(model, `/\`) || strings.HasPrefix(org, ".") || org == "" || model == "" || strings.Contains(name, "..") {
		return ""
	}
	folder := filepath.Join(hub, "models--"+org+"--"+model)
	if ref, err := os.ReadFile(filepath.Join(folder, "refs", "main")); err == nil {
		if rev := strings.TrimSpace(string(ref)); rev != "" && filepath.Base(rev) == rev {
			if path := filepath.Join(folder, "snapshots", rev); has(path) {
				return path
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join(folder, "snapshots"))
	if err != nil {
		return ""
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if path := filepath.Join(folder, "snapshots", e.Name()); has(path) {
			return path
		}
	}
	return ""
}
