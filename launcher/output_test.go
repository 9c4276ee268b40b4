//go:build linux

package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSplitter(t *testing.T) {
	tests := []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"lines", []string{"a\nb\n"}, []string{"a", "b"}},
		{"across chunks", []string{"a", "b\nc", "\n"}, []string{"ab", "c"}},
		{"empty lines stay", []string{"\n\n"}, []string{"", ""}},
		{"unfinished", []string{"a\nb"}, []string{"a", "b"}},
		{"windows", []string{"a\r\nb\r\n"}, []string{"a", "b"}},
		{"progress bar", []string{"\r 1 %\r 50 %", "\r100 %\n"}, []string{"100 %"}},
		{"progress bar, unfinished", []string{"\r 1 %\r 50 %\r"}, []string{" 50 %"}},
		{"not text", []string{"a\xffb\n"}, []string{"a\ufffdb"}},
		{"endless line", []string{strings.Repeat("x", maxLine) + "y\n"}, []string{strings.Repeat("x", maxLine), "y"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s splitter
			var got []string
			emit := func(line string) { got = append(got, line) }
			for _, c := range tt.chunks {
				s.feed([]byte(c), emit)
			}
			s.flush(emit, false)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTail(t *testing.T) {
	var tl tail
	if got := tl.last(5); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
	for i := range tailLines + 7 {
		tl.add(fmt.Sprint(i))
	}
	if diff := cmp.Diff([]string{"205", "206"}, tl.last(2)); diff != "" {
		t.Error(diff)
	}
	if got := tl.last(1000); len(got) != tailLines || got[0] != "7" {
		t.Errorf("%d lines from %s", len(got), got[0])
	}
}

func TestPartialLineIsFlushed(t *testing.T) {
	t.Parallel()
	var out buffer
	launch(t, testConfig(1, "partial=Loading hang"), &out, discardLog())
	waitFor(t, &out, "[engine 0] Loading\n", 1)
}

func TestLogModes(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		var out buffer
		cfg := testConfig(1, "say=hello serve hang")
		cfg.Log, cfg.LogDir = LogFile, t.TempDir()
		g := launch(t, cfg, &out, discardLog())
		path := filepath.Join(cfg.LogDir, "engine-0.log")
		eventually(t, "the file holds the line", func() bool {
			data, err := os.ReadFile(path)
			return err == nil && string(data) == "hello\n"
		})
		if got := out.String(); strings.Contains(got, "hello") || !strings.Contains(got, "log "+path) {
			t.Errorf("output %q", got)
		}
		if diff := cmp.Diff([]string{"hello"}, g.Processes()[0].Tail(9)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		var out buffer
		cfg := testConfig(1, "say=hello")
		cfg.JSON = true
		launch(t, cfg, &out, discardLog())
		waitFor(t, &out, "\n", 1)
		var line struct {
			Timestamp              time.Time
			Level, Source, Message string
		}
		if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		if line.Source != "engine-0" || line.Message != "hello" || line.Level != "INFO" || line.Timestamp.IsZero() {
			t.Errorf("line %+v", line)
		}
	})
	t.Run("raw to a file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "stderr")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		cfg := testConfig(1, "say=hello err=there exit=4")
		cfg.Log = LogRaw
		g := launch(t, cfg, f, discardLog())
		werr := g.WaitReady(t.Context())
		if !strings.Contains(report(werr), "its output was not captured") || !strings.Contains(report(werr), "exit code 4") {
			t.Error(report(werr))
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "\nhello\nthere\n") {
			t.Errorf("%v: %q", err, data)
		}
	})
	t.Run("raw to a writer", func(t *testing.T) {
		t.Parallel()
		var out buffer
		cfg := testConfig(1, "say=hello hang")
		cfg.Log = LogRaw
		launch(t, cfg, &out, discardLog())
		waitFor(t, &out, "\nhello\n", 1)
	})
	t.Run("color", func(t *testing.T) {
		t.Parallel()
		var out buffer
		cfg := testConfig(2, "say=hello hang")
		cfg.Color = true
		launch(t, cfg, &out, discardLog())
		waitFor(t, &out, "\x1b[36m[engine 0] \x1b[0mhello\n", 1)
		waitFor(t, &out, "\x1b[33m[engine 1] \x1b[0mhello\n", 1)
	})
}

func TestReportKeepsTheLastLines(t *testing.T) {
	t.Parallel()
	g := launch(t, testConfig(1, "lines=500 exit=1"), &buffer{}, discardLog())
	got := report(g.WaitReady(t.Context()))
	if !strings.Contains(got, "line 480\n") || !strings.Contains(got, "line 499\n") || strings.Contains(got, "line 479\n") {
		t.Error(got)
	}
}

func TestConsole(t *testing.T) {
	var out buffer
	c := NewConsole(&out, true)
	width := 20
	c.size = func() (int, int) { return width, 24 }
	write := func(line string) {
		if _, err := c.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	const one, two = "\r" + clearBelow, "\r\x1b[1A" + clearBelow
	write("first")
	c.setStatus("loading 1 s")
	write("a line")
	c.setStatus("loading 1 s") // no change, no output
	c.setStatus("loading 2 s", "another one that is long")
	write("between")
	width = 10 // each line of the block takes two rows now
	c.setStatus("x")
	c.setStatus()
	write("last")
	want := "first\n" +
		"loading 1 s" + one + "a line\nloading 1 s" +
		one + "loading 2 s\r\nanother one that i…" +
		two + "between\nloading 2 s\r\nanother one that i…" +
		"\r\x1b[3A" + clearBelow + "x" + one + "last\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	if NewConsole(&out, false).setStatus("x") {
		t.Error("a status line without a terminal")
	}
}

func TestClip(t *testing.T) {
	tests := []struct {
		name, in string
		n        int
		want     string
	}{
		{"fits", "abcd", 4, "abcd"},
		{"cut", "abcde", 4, "abc…"},
		{"wide", "模型模型", 6, "模型…"},
		{"wide fits", "模型", 4, "模型"},
		{"bar", "███████", 4, "███…"},
		{"no room", "abc", 1, "…"},
		{"nothing", "", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := clip(tt.in, tt.n); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestStatusLineOnATerminal(t *testing.T) {
	t.Parallel()
	var out buffer
	loaded := filepath.Join(t.TempDir(), "loaded")
	cfg := testConfig(maxShown+3, "rank0:await="+loaded+" rank0:serve hang")
	cfg.LoadingInterval = 20 * time.Millisecond
	g := launch(t, cfg, NewConsole(&out, true), discardLog())
	done := make(chan error, 1)
	go func() { done <- g.WaitReady(t.Context()) }()
	waitFor(t, &out, "engine 0  loading… ", 2)
	waitFor(t, &out, "\r\nengine 7  loading… ", 2)
	waitFor(t, &out, "\r\nand 3 more\r\x1b[8A"+clearBelow+"engine 0  loading", 1)
	if err := os.WriteFile(loaded, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, &out, "engine 0  ready after", 1)
	waitFor(t, &out, "\r\nand 2 more", 2)
	g.Kill()
	if err := <-done; !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
	_, after, _ := strings.Cut(out.String(), "engine 0  ready after")
	_, after, _ = strings.Cut(after, "\n") // the block as it was is drawn behind it
	_, after, _ = strings.Cut(after, clearBelow)
	if strings.Contains(after, "engine 0") {
		t.Errorf("an engine that is ready is shown as loading: %q", after)
	}
	if last := after[strings.LastIndex(after, clearBelow)+len(clearBelow):]; last != "" {
		t.Errorf("a status line is left: %q", last)
	}
}

// TestSmallTerminal: the block never fills the window.
func TestSmallTerminal(t *testing.T) {
	t.Parallel()
	var out buffer
	cfg := testConfig(5, "hang")
	cfg.LoadingInterval = 20 * time.Millisecond
	c := NewConsole(&out, true)
	c.size = func() (int, int) { return 20, 5 }
	g := launch(t, cfg, c, discardLog())
	done := make(chan error, 1)
	go func() { done <- g.WaitReady(t.Context()) }()
	waitFor(t, &out, "engine 0  loading……\r\nengine 1  loading……\r\nand 3 more", 2)
	g.Kill()
	<-done
}

// TestNoBlockOverRawOutput: what engines write themselves must not be overwritten.
func TestNoBlockOverRawOutput(t *testing.T) {
	t.Parallel()
	var out buffer
	cfg := testConfig(1, "say=here hang")
	cfg.LoadingInterval, cfg.Log = 20*time.Millisecond, LogRaw
	g := launch(t, cfg, NewConsole(&out, true), discardLog())
	done := make(chan error, 1)
	go func() { done <- g.WaitReady(t.Context()) }()
	waitFor(t, &out, "loading… ", 2)
	g.Kill()
	<-done
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("control sequences: %q", out.String())
	}
}

func TestHints(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"module", "ModuleNotFoundError: No module named 'sglang'", "--engine-python"},
		{"memory", "torch.OutOfMemoryError: CUDA out of memory. Tried", "the device is full"},
		{"port", "OSError: [Errno 98] Address already in use", "--worker-base-port"},
		{"llama.cpp port", "srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1", "--worker-base-port"},
		{"gated", "Access to model x is restricted: gated repo", "HF_TOKEN"},
		{"credentials", "401 Client Error: Unauthorized for url", "HF_TOKEN"},
		{"arguments", "usage: error: unrecognized arguments: --x", "does not know one of the flags"},
		{"model", "main: error: failed to load model", "check --model"},
		{"nothing known", "all is well", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := hintFor([]string{"before", tt.line, "after"}, nil); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("hint %q, want %q", got, tt.want)
			}
		})
	}
}
