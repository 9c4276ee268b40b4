package flags

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the pages that are made of the tables of flags")

// golden holds a file of docs to what is made of the tables.
func golden(t *testing.T, file, want string) {
	t.Helper()
	path := filepath.Join("..", "..", "..", "docs", file)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make golden writes it", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/%s is old (-tables +page); make golden writes it anew:\n%s", file, diff)
	}
}
