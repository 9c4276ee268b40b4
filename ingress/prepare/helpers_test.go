package prepare_test

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
	"time"

	"smg/ingress/body"
	"smg/ingress/prepare"
	"smg/tokenizer"
	"smg/tokenizer/chattemplate"
	"smg/tokens"
)

// now is the time of all tests.
var now = time.Date(2026, 7, 4, 9, 5, 7, 0, time.UTC)

// chatTemplate shows all that templates are told.
const chatTemplate = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments|tojson }}{% endif %}<|im_end|>
{% endfor %}{% if messages[0].role == 'nobody' %}{{ raise_exception('no nobodies') }}{% endif %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{{ reasoning_effort }}{{ mood }}{{ documents[0].text if documents }}`

func vocabulary(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	f, err := os.Open("../../tokenizer/testdata/kind_llama3.json.gz")
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
	tok, err := tokenizer.Parse(file.Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// model has a tokenizer, and a template if one is given.
func model(t testing.TB, template string) *tokens.Model {
	t.Helper()
	var chat *chattemplate.Templates
	if template != "" {
		var err error
		if chat, err = chattemplate.New("t", template, nil); err != nil {
			t.Fatal(err)
		}
	}
	return tokens.NewModel(vocabulary(t), chat, nil)
}

func do(t testing.TB, rt prepare.Route, m *tokens.Model, text string) (*prepare.Request, error) {
	t.Helper()
	b, err := body.Parse([]byte(text), body.DefaultMaxDepth)
	if err != nil {
		t.Fatal(err)
	}
	check := map[prepare.Route]body.Check{prepare.Chat: body.CheckChat, prepare.Completions: body.CheckCompletions, prepare.Generate: body.CheckGenerate}[rt]
	if err := check(&b); err != nil {
		t.Fatal(err)
	}
	return prepare.Do(t.Context(), rt, &b, m, now)
}
