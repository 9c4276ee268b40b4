package tokens

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"smg/tokenizer/chattemplate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokenizerJSON is the tokenizer.json of a small model.
func tokenizerJSON(t testing.TB) string {
	t.Helper()
	f, err := os.Open("../tokenizer/testdata/kind_llama3.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Tokenizer json.RawMessage }
	if err := json.NewDecoder(z).Decode(&file); err != nil {
		t.Fatal(err)
	}
	return string(file.Tokenizer)
}

// folder has files, and a tokenizer.json where one is "-".
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if text == "-" {
			text = tokenizerJSON(t)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func registry(t testing.TB, cfg Config) *Registry {
	t.Helper()
	r, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOpen(t *testing.T) {
	whole := map[string]string{
		"tokenizer.json":         "-",
		"tokenizer_config.json":  `{"eos_token":"<|im_end|>","chat_template":"own"}`,
		"generation_config.json": `{"eos_token_id":[0,7]}`,
		"config.json":            `{"eos_token_id":9,"max_position_embeddings":4}`,
	}
	im := uint32(2) // <|im_end|>
	hub := folder(t, map[string]string{
		"models--org--named/refs/main":                        "bbb\n",
		"models--org--named/snapshots/aaa/tokenizer.json":     "{}",
		"models--org--named/snapshots/bbb/tokenizer.json":     "-",
		"models--org--norefs/snapshots/aaa/tokenizer.json":    "-",
		"models--org--evil/refs/main":                         "../../models--org--named/snapshots/bbb",
		"models--org--weights/snapshots/aaa/model.safetensor": "",
	})
	own := filepath.Join(folder(t, map[string]string{"t.jinja": "operator's"}), "t.jinja")
	for _, tc := range []struct {
		name   string
		cfg    Config
		source Source
		files  map[string]string // of the source's model
		ends   []uint32
		prompt string // "" for no template
		err    string
	}{
		{name: "folder", files: whole, ends: []uint32{0, im, 7}, prompt: "own"},
		{name: "config_ends", files: map[string]string{"tokenizer.json": "-", "config.json": `{"eos_token_id":9}`}, ends: []uint32{9}},
		{name: "engine_ends", source: Source{Ends: []uint32{5, 9}}, files: map[string]string{"tokenizer.json": "-", "config.json": `{"eos_token_id":9}`}, ends: []uint32{5, 9}},
		{name: "no_configs", files: map[string]string{"tokenizer.json": "-"}},
		{name: "operators_template", cfg: Config{Template: own}, files: whole, ends: []uint32{0, im, 7}, prompt: "operator's"},
		{name: "template_alone", cfg: Config{Template: own}, files: map[string]string{"tokenizer.json": "-"}, prompt: "operator's"},
		{name: "missing_template", cfg: Config{Template: "/nowhere"}, files: whole, err: "--chat-template: open /nowhere"},
		{name: "flags_first", cfg: Config{Flags: Source{Tokenizer: "FOLDER"}}, source: Source{Model: "/nowhere"}, files: whole, ends: []uint32{0, im, 7}, prompt: "own"},
		{name: "hub", cfg: Config{Hub: hub}, source: Source{Model: "org/named"}},
		{name: "hub_no_refs", cfg: Config{Hub: hub}, source: Source{Model: "org/norefs"}},
		{name: "hub_second_name", cfg: Config{Hub: hub}, source: Source{Tokenizer: "org/other", Model: "org/named"}},
		{name: "hub_weights_only", cfg: Config{Hub: hub}, source: Source{Model: "org/weights"}, err: "no tokenizer at org/weights"},
		{name: "hub_evil_ref", cfg: Config{Hub: hub}, source: Source{Model: "org/evil"}, err: "no tokenizer at org/evil"},
		{name: "hub_evil_name", cfg: Config{Hub: hub}, source: Source{Model: "org/../../x"}, err: "no tokenizer at"},
		{name: "no_autoload", cfg: Config{NoAutoload: true}, files: whole, err: "--disable-tokenizer-autoload"},
		{name: "no_autoload_flags", cfg: Config{NoAutoload: true, Flags: Source{Model: "FOLDER"}}, files: whole, ends: []uint32{0, im, 7}, prompt: "own"},
		{name: "nothing", err: "nobody says where its tokenizer is"},
		{name: "not_here", source: Source{Tokenizer: "/a", Model: "b/c"}, err: "no tokenizer at /a or b/c on this machine: name a folder with --tokenizer-path"},
		{name: "bad_tokenizer", files: map[string]string{"tokenizer.json": "{}"}, err: "tokenizer.json"},
		{name: "bad_config", files: map[string]string{"tokenizer.json": "-", "config.json": `{"eos_token_id":"x"}`}, err: "eos_token_id is neither"},
		{name: "bad_template", files: map[string]string{"tokenizer.json": "-", "chat_template.jinja": "{% if %}"}, err: "chat_template.jinja, line 1"},
		{name: "bad_gguf", source: Source{Model: filepath.Join(folder(t, map[string]string{"m.gguf": "nonsense"}), "m.gguf")}, err: "m.gguf"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.files != nil {
				dir := folder(t, tc.files)
				if tc.source.Model == "" {
					tc.source.Model = dir
				}
				for _, p := range []*string{&tc.cfg.Flags.Tokenizer, &tc.cfg.Flags.Model} {
					*p = strings.ReplaceAll(*p, "FOLDER", dir)
				}
			}
			tc.source.Context = 77
			m, err := registry(t, tc.cfg).open(tc.source)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want an error with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.ends, m.Ends); diff != "" || m.Context != 77 {
				t.Errorf("context %d, ends (-want +got):\n%s", m.Context, diff)
			}
			if ids, err := m.Encode("hello", false); err != nil || len(ids) == 0 {
				t.Errorf("ids %v, %v", ids, err)
			}
			prompt := ""
			if m.Chat != nil {
				if prompt, err = m.Chat.Prompt(t.Context(), &chattemplate.Chat{}); err != nil {
					t.Fatal(err)
				}
			}
			if prompt != tc.prompt {
				t.Errorf("prompt %q, want %q", prompt, tc.prompt)
			}
		})
	}
}

// TestStates goes through the life of models in a registry.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, Config{Retry: 30 * time.Second})
		good, bad := folder(t, map[string]string{"tokenizer.json": "x"}), folder(t, map[string]string{"tokenizer.json": "{}"})
		gate := make(chan struct{})
		var running, most, loads atomic.Int32
		r.load = func(path, _ string, _ int64) (*Model, error) {
			loads.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			<-gate
			running.Add(-1)
			switch path {
			case bad:
				return nil, errors.New("it is broken")
			case "/dev/null":
				panic("odd file")
			}
			return &Model{From: path, Tokenizer: mini(t)}, nil
		}
		if _, err := r.Model("a"); !errors.Is(err, ErrUnknown) {
			t.Errorf("before: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		r.Announce("a", Source{Model: good})
		r.Announce("a", Source{Model: good})
		r.Announce("b", Source{Model: bad})
		r.Announce("c", Source{Model: "/dev/null"})
		r.Announce("gone", Source{Model: good})
		r.Forget("gone")
		synctest.Wait()
		if _, err := r.Model("a"); !errors.Is(err, ErrLoading) {
			t.Errorf("loading: %v", err)
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, r.Pending()); diff != "" {
			t.Error(diff)
		}
		close(gate)
		synctest.Wait()
		if m, err := r.Model("a"); err != nil || m.From != good {
			t.Errorf("ready: %v, %v", m, err)
		}
		if _, err := r.Model("b"); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "model b: the tokenizer cannot be loaded: it is broken") {
			t.Errorf("failed: %v", err)
		}
		if _, err := r.Model("c"); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "odd file") {
			t.Errorf("panicked: %v", err)
		}
		if len(r.Pending()) != 0 || len(r.Failed()) != 2 || most.Load() != atATime || loads.Load() != 3 {
			t.Errorf("pending %v, failed %v, %d at a time, %d loads", r.Pending(), r.Failed(), most.Load(), loads.Load())
		}
		// A failure is tried again, but not at once; what is ready only for another source.
		r.Announce("a", Source{Model: good})
		r.Announce("b", Source{Model: bad})
		synctest.Wait()
		if loads.Load() != 3 {
			t.Errorf("%d loads, want 3", loads.Load())
		}
		time.Sleep(31 * time.Second)
		r.Announce("a", Source{Model: good})
		r.Announce("b", Source{Model: bad})
		synctest.Wait()
		if loads.Load() != 4 {
			t.Errorf("%d loads, want 4", loads.Load())
		}
		r.Announce("b", Source{Model: good, Context: 9})
		synctest.Wait()
		if m, err := r.Model("b"); err != nil || m.Context != 9 {
			t.Errorf("another source: %v, %v", m, err)
		}
		r.Forget("a")
		if _, err := r.Model("a"); !errors.Is(err, ErrUnknown) {
			t.Errorf("forgotten: %v", err)
		}
		if diff := cmp.Diff([]string{"b", "c"}, r.Models()); diff != "" {
			t.Error(diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestChangedWhileLoading has a model's source change during its load.
func TestChangedWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, Config{})
		one, two := folder(t, map[string]string{"tokenizer.json": "x"}), folder(t, map[string]string{"tokenizer.json": "x"})
		gate := make(chan struct{}, 1)
		r.load = func(path, _ string, _ int64) (*Model, error) {
			<-gate
			return &Model{From: path, Tokenizer: mini(t)}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		r.Announce("m", Source{Model: one})
		synctest.Wait()
		r.Announce("m", Source{Model: two})
		gate <- struct{}{}
		synctest.Wait()
		if _, err := r.Model("m"); !errors.Is(err, ErrLoading) {
			t.Errorf("what is out of date counts: %v", err)
		}
		gate <- struct{}{}
		synctest.Wait()
		if m, err := r.Model("m"); err != nil || m.From != two {
			t.Errorf("got %v, %v, want what was said last", m, err)
		}
		cancel()
		<-ended
	})
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	_, err := New(Config{CacheBytes: -1, Retry: -1}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "--tokenizer-cache-l1-max-memory") || !strings.Contains(err.Error(), "between tries") {
		t.Errorf("got %v, want both faults", err)
	}
}

func TestEncodeRemembers(t *testing.T) {
	r := registry(t, DefaultConfig())
	m, err := r.open(Source{Model: folder(t, map[string]string{"tokenizer.json": "-"})})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("a long text that is worth keeping. ", 50)
	one, err1 := m.Encode(text, true)
	two, err2 := m.Encode(text, true)
	if err := errors.Join(err1, err2); err != nil || !cmp.Equal(one, two) {
		t.Errorf("ids %v and %v, %v", one, two, err)
	}
	if s := m.cache.Stats(); s.Hits == 0 {
		t.Errorf("nothing was remembered: %+v", fmt.Sprint(s))
	}
}

func TestAdvice(t *testing.T) {
	open := func(text string) (*Model, error) {
		return registry(t, Config{}).open(Source{Model: folder(t, map[string]string{"tokenizer.json": "-", "generation_config.json": text})})
	}
	m, err := open(`{"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"max_new_tokens":2048}`)
	if err != nil {
		t.Fatal(err)
	}
	temperature, topP, minP, repetition, topK := 1.0, 1.0, 0.0, 1.0, -1
	m.Advice.Apply(&temperature, &topP, &minP, &repetition, &topK)
	if temperature != 0.6 || topP != 0.95 || minP != 0 || repetition != 1 || topK != 20 {
		t.Errorf("got %v %v %v %v %v", temperature, topP, minP, repetition, topK)
	}
	for _, bad := range []string{`{"temperature":-1}`, `{"temperature":"hot"}`} {
		if _, err := open(bad); err == nil || !strings.Contains(err.Error(), "generation_config.json") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
