package record

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

func TestName(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string
		leg  worker.Leg
		n    int
		want string
	}{
		{"as asked", "a/traffic.jsonl.gz", worker.Regular, 1, "a/traffic.jsonl.gz"},
		{"a leg", "traffic.jsonl.gz", worker.Prefill, 1, "traffic.prefill.jsonl.gz"},
		{"again", "traffic.jsonl", worker.Regular, 2, "traffic.2.jsonl"},
		{"a leg again", "traffic.gz", worker.Decode, 12, "traffic.decode.12.gz"},
		{"no extension", "traffic", worker.Encode, 2, "traffic.encode.2"},
		{"dots that are none", "a.b/v1.5", worker.Prefill, 1, "a.b/v1.5.prefill"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Name(tt.file, tt.leg, tt.n); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestNothingIsOverwritten: a selector that is started again writes another file.
func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	var got []string
	for range 3 {
		r, err := Create(filepath.Join(dir, "t.jsonl"), config, slog.New(slog.DiscardHandler), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.Base(r.Path()))
		if err := r.out.close(time.Now(), 0); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(r.Path())
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", r.Path(), info, err)
		}
	}
	if diff := cmp.Diff([]string{"t.jsonl", "t.2.jsonl", "t.3.jsonl"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	if err := Writable(filepath.Join(dir, "x")); err != nil {
		t.Error(err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
	missing := filepath.Join(dir, "no", "x")
	if err := Writable(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that there is no such folder", err)
	}
	if _, err := Create(missing, config, slog.New(slog.DiscardHandler), time.Now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that there is no such folder", err)
	}
}
