package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"smg/tokenizer"
	"smg/tokenizer/chattemplate"
)

// Model is what is known of a model's texts and tokens. It is safe for concurrent use,
// and nothing of it changes.
type Model struct {
	Tokenizer *tokenizer.Tokenizer
	// Chat are the chat templates, nil if the model has none.
	Chat *chattemplate.Templates
	// Ends are the tokens with which the model ends an answer, in order.
	Ends []uint32
	// Advice is what the model's authors say of sampling, in generation_config.json.
	Advice Advice
	// Context is how many tokens prompt and answer have together at most, 0 if nobody says.
	Context int
	// From is the file or folder that it was loaded from.
	From string

	cache *tokenizer.Cache
}

// NewModel is a model that is put together from its parts. Without a cache it
// remembers no prompts.
func NewModel(t *tokenizer.Tokenizer, chat *chattemplate.Templates, cache *tokenizer.Cache) *Model {
	return &Model{Tokenizer: t, Chat: chat, cache: cache}
}

// Encode is the ids of text, from memory where parts of it have been asked for before.
func (m *Model) Encode(text string, special bool) ([]uint32, error) {
	if m.cache != nil {
		return m.cache.Encode(text, special)
	}
	return m.Tokenizer.Encode(text, special)
}

// maxSmall bounds the configuration files that are read whole.
const maxSmall = 16 << 20

// load reads the files of a model at a path that is there. The operator's template counts
// before all others.
func load(path, template string, cache int64) (*Model, error) {
	m := &Model{From: path}
	folder, gguf := path, strings.EqualFold(filepath.Ext(path), ".gguf")
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.IsDir() {
		folder = filepath.Dir(path)
	}
	var err error
	if gguf {
		err = m.fromGGUF(path)
	} else {
		err = m.fromFolder(path, folder)
	}
	if err != nil {
		return nil, err
	}
	if template != "" {
		base := m.Chat
		if base == nil {
			base = &chattemplate.Templates{}
		}
		if m.Chat, err = base.With(template); err != nil {
			return nil, fmt.Errorf("--chat-template: %w", err)
		}
	}
	if m.Chat != nil && m.Chat.None() {
		m.Chat = nil
	}
	if cache > 0 {
		if m.cache, err = tokenizer.NewCache(m.Tokenizer, cache); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Model) fromFolder(path, folder string) (err error) {
	if m.Tokenizer, err = tokenizer.Open(path); err != nil {
		return err
	}
	m.Chat, err = chattemplate.Open(folder)
	if err != nil && !errors.Is(err, chattemplate.ErrNone) {
		return err
	}
	// Also without a template: a file of the operator's wants the special tokens.
	if m.Ends, err = m.ends(folder); err != nil {
		return err
	}
	path = filepath.Join(folder, "generation_config.json")
	if _, err = readJSON(path, &m.Advice); err == nil {
		err = m.Advice.check()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ends are the ends of answers that a model's files name: those of generation_config.json
// or else of config.json, and the tokenizer's own.
func (m *Model) ends(folder string) (ids []uint32, err error) {
	for _, name := range []string{"generation_config.json", "config.json"} {
		var c struct {
			EOS json.RawMessage `json:"eos_token_id"`
		}
		found, err := readJSON(filepath.Join(folder, name), &c)
		if err != nil {
			return nil, err
		}
		var one uint32
		switch {
		case !found || len(c.EOS) == 0 || string(c.EOS) == "null":
			continue
		case json.Unmarshal(c.EOS, &one) == nil:
			ids = append(ids, one)
		case json.Unmarshal(c.EOS, &ids) == nil:
		default:
			return nil, fmt.Errorf("%s: eos_token_id is neither a token id nor a list of them", filepath.Join(folder, name))
		}
		break
	}
	if m.Chat != nil {
		if id, ok := m.Tokenizer.ID(m.Chat.Special("eos_token")); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// readJSON reads a file that need not be there.
func readJSON(path string, into any) (found bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && info.Size() > maxSmall {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxSmall)
	}
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

func (m *Model) fromGGUF(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	g, err := tokenizer.ReadGGUF(f)
	if err == nil {
		m.Tokenizer, err = g.Tokenizer()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	special := map[string]string{}
	for name, id := range map[string]*uint32{"bos_token": g.BOS, "eos_token": g.EOS, "unk_token": g.Unknown} {
		if id != nil {
			special[name], _ = m.Tokenizer.Token(*id)
		}
	}
	if g.EOS != nil {
		m.Ends = []uint32{*g.EOS}
	}
	if g.ChatTemplate != "" {
		m.Chat, err = chattemplate.New(path, g.ChatTemplate, special)
	}
	return err
}

// Advice is how a model's authors would choose its tokens; nil where they do not say.
type Advice struct {
	Temperature       *float64 `json:"temperature"`
	TopP              *float64 `json:"top_p"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	TopK              *int     `json:"top_k"`
}

// Apply sets what the advice speaks of.
func (a *Advice) Apply(temperature, topP, minP, repetition *float64, topK *int) {
	for _, f := range [...]struct{ from, to *float64 }{{a.Temperature, temperature}, {a.TopP, topP}, {a.MinP, minP}, {a.RepetitionPenalty, repetition}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if a.TopK != nil && *a.TopK > 0 {
		*topK = *a.TopK
	}
}

// check refuses what is no advice.
func (a *Advice) check() error {
	for name, v := range map[string]*float64{"temperature": a.Temperature, "top_p": a.TopP, "min_p": a.MinP, "repetition_penalty": a.RepetitionPenalty} {
		if v != nil && (*v < 0 || *v > 1000) {
			return fmt.Errorf("%s is %v", name, *v)
		}
	}
	return nil
}
