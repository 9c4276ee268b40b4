package mooncake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	above := t.TempDir()
	data, deep := filepath.Join(above, "shared", "data"), filepath.Join(above, "repository", "bench")
	for _, dir := range []string{data, deep} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(deep)
	t.Setenv(Variable, "")
	if _, err := Find(""); err == nil || !strings.Contains(err.Error(), "-trace FILE") {
		t.Errorf("without a trace: error %v, want a hint", err)
	}
	path := filepath.Join(data, File)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(""); err != nil || !same(t, got, path) {
		t.Errorf("above: %q, %v, want %q", got, err, path)
	}
	t.Setenv(Variable, "variable.jsonl")
	if got, err := Find(""); got != "variable.jsonl" || err != nil {
		t.Errorf("variable: %q, %v", got, err)
	}
	if got, err := Find("flag.jsonl"); got != "flag.jsonl" || err != nil {
		t.Errorf("flag: %q, %v", got, err)
	}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.Stat(b)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(x, y)
}
