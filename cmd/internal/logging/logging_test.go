package logging

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLinesForMachines holds the keys of JSON lines.
func TestLinesForMachines(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, slog.LevelInfo, true).With(slog.String("leg", "decode"))
	log.Info("a", slog.Int("n", 1), slog.Duration("took", time.Second))
	log.Info("b", slog.String("target", "smg::request"), slog.Group("span", slog.String("request_id", "i")))
	log.Info("c", slog.Int("level", 128), slog.String("message", "m"))
	var got []map[string]any
	for line := range bytes.Lines(out.Bytes()) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if _, err := time.Parse(time.RFC3339Nano, m["timestamp"].(string)); err != nil {
			t.Error(err)
		}
		if m["line_number"].(float64) < 1 || strings.Count(string(line), `"target"`) != 1 {
			t.Errorf("%s", line)
		}
		delete(m, "timestamp")
		delete(m, "line_number")
		got = append(got, m)
	}
	want := []map[string]any{
		{"level": "INFO", "message": "a", "target": "smg::cmd::internal::logging", "filename": "logging/logging_test.go", "leg": "decode", "n": 1.0, "took": "1s"},
		{"level": "INFO", "message": "b", "target": "smg::request", "filename": "logging/logging_test.go", "leg": "decode", "span": map[string]any{"request_id": "i"}},
		{"level": "INFO", "message": "c", "target": "smg::cmd::internal::logging", "filename": "logging/logging_test.go", "leg": "decode", "fields.level": 128.0, "fields.message": "m"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLinesForPeople holds what people read.
func TestLinesForPeople(t *testing.T) {
	var out bytes.Buffer
	New(&out, slog.LevelInfo, false).Info("a", slog.Int("n", 1))
	line := out.String()
	stamp := strings.TrimPrefix(line, `time="`)[:len(time.DateTime)]
	if _, err := time.Parse(time.DateTime, stamp); err != nil || !strings.HasSuffix(line, "\" level=INFO msg=a n=1 target=smg::cmd::internal::logging\n") {
		t.Errorf("%v %s", err, line)
	}
}

// TestTargets names functions' packages.
func TestTargets(t *testing.T) {
	for function, want := range map[string]string{
		"main.main": "main", "smg/legs/client.(*Client).Run.func1": "smg::legs::client", "smg/ingress.New": "smg::ingress",
		"github.com/a/b.v2.F": "github.com::a::b", "": "",
	} {
		if got := targetOf(function); got != want {
			t.Errorf("%q is of %q, not %q", function, got, want)
		}
	}
}

// TestDaily writes to a file of each day, UTC, behind what is there, and tells of a fault
// once.
func TestDaily(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	now := time.Date(2026, 7, 31, 23, 59, 59, 0, time.UTC).In(time.FixedZone("far", -7*3600))
	var told bytes.Buffer
	for range 2 { // as after a restart
		d, err := NewDaily(dir, func() time.Time { return now }, &told)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write([]byte("one\n")); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	d, err := NewDaily(dir, func() time.Time { return now }, &told)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	_, _ = d.Write([]byte("two\n"))
	got := map[string]string{}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name()] = string(b)
	}
	if diff := cmp.Diff(map[string]string{"smg.2026-07-31": "one\none\n", "smg.2026-08-01": "two\n"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	now = now.Add(24 * time.Hour)
	for range 3 {
		if n, err := d.Write([]byte("gone\n")); n != 5 || err != nil {
			t.Errorf("%d %v", n, err)
		}
	}
	if n := strings.Count(told.String(), "--log-dir"); n != 1 {
		t.Errorf("told %d times:\n%s", n, told.String())
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := NewDaily("/proc/none", time.Now, &told); err == nil {
		t.Error("a folder in /proc was made")
	}
}
