package chattemplate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"smg/tokenizer/chattemplate"
	"smg/tokenizer/jinja"
)

// folder is a model's folder with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
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

func list(t testing.TB, text string) []jinja.Value {
	t.Helper()
	v, err := jinja.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(*jinja.List).Items //nolint:forcetypeassert // the test's own text
}

func TestOpen(t *testing.T) {
	const config = `{"bos_token":{"__type":"AddedToken","content":"<B>"},"eos_token":"<E>","pad_token":null,"additional_special_tokens":["<1>",{"content":"<2>"}],`
	const show = `{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ additional_special_tokens }}`
	for _, tc := range []struct {
		name  string
		files map[string]string
		tools bool
		want  string // the prompt, or a part of the error
	}{
		{name: "config", files: map[string]string{"tokenizer_config.json": config + `"chat_template":"c` + show + `"}`}, want: "c<B><E>False['<1>', '<2>']"},
		{name: "file_first", files: map[string]string{"tokenizer_config.json": config + `"chat_template":"c"}`, "chat_template.jinja": "f" + show + "\n"}, want: "f<B><E>False['<1>', '<2>']"},
		{name: "file_alone", files: map[string]string{"chat_template.jinja": "f"}, want: "f"},
		{name: "named", files: map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"}]}`}, want: "d"},
		{name: "named_tools", files: map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"}]}`}, tools: true, want: "t"},
		{name: "folder_tools", files: map[string]string{"chat_template.jinja": "d", "additional_chat_templates/tool_use.jinja": "t"}, tools: true, want: "t"},
		{name: "no_default", files: map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"d"}]}`}, want: "choose one with --chat-template"},
		{name: "processor", files: map[string]string{"tokenizer_config.json": "{}", "chat_template.json": `{"chat_template":"p"}`}, want: "p"},
		{name: "none", files: map[string]string{"tokenizer_config.json": "{}"}, want: "the model has no chat template"},
		{name: "nothing", want: "the model has no chat template"},
		{name: "null", files: map[string]string{"tokenizer_config.json": `{"chat_template":null}`}, want: "the model has no chat template"},
		{name: "not_json", files: map[string]string{"tokenizer_config.json": "{"}, want: "tokenizer_config.json: unexpected end"},
		{name: "bad_type", files: map[string]string{"tokenizer_config.json": `{"chat_template":7}`}, want: "neither a string nor a list"},
		{name: "bad_token", files: map[string]string{"tokenizer_config.json": `{"bos_token":7}`}, want: "bos_token is neither"},
		{name: "bad_template", files: map[string]string{"chat_template.jinja": "\n{% if %}"}, want: "chat_template.jinja, line 2: expected an expression"},
		{name: "empty", files: map[string]string{"chat_template.jinja": " \n"}, want: "is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set, err := chattemplate.Open(folder(t, tc.files))
			got := ""
			if err == nil {
				c := &chattemplate.Chat{}
				if tc.tools {
					c.Tools = &jinja.List{Items: []jinja.Value{"x"}}
				}
				got, err = set.Prompt(t.Context(), c)
			}
			if err != nil && strings.Contains(err.Error(), tc.want) {
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestWith(t *testing.T) {
	set, err := chattemplate.Open(folder(t, map[string]string{"tokenizer_config.json": `{"bos_token":"<B>"}`}))
	if !errors.Is(err, chattemplate.ErrNone) {
		t.Fatalf("got %v, want ErrNone", err)
	}
	set, err = set.With(filepath.Join(folder(t, map[string]string{"own.txt": "own{{ bos_token }}"}), "own.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := set.Prompt(t.Context(), &chattemplate.Chat{}); got != "own<B>" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := set.With("/nowhere/at/all"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no file", err)
	}
}

const chatML = `{% for m in messages %}<{{ m.role }}>{{ m.content|trim if trimmed else m.content }}</{{ m.role }}>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}{{ extra }}`

func TestPrompt(t *testing.T) {
	options := &jinja.Dict{}
	options.Set("extra", "!")
	trimmed := &jinja.Dict{}
	trimmed.Set("trimmed", true)
	for _, tc := range []struct {
		name, template, messages string
		chat                     chattemplate.Chat
		want, refused            string
	}{
		{name: "answer", messages: `[{"role":"user","content":"hi"}]`, chat: chattemplate.Chat{Answer: true}, want: "<user>hi</user><assistant>"},
		{name: "no_answer", messages: `[{"role":"user","content":"hi"}]`, want: "<user>hi</user>"},
		{name: "options", messages: `[]`, chat: chattemplate.Chat{Options: options}, want: "!"},
		{name: "continue", messages: `[{"role":"user","content":"hi"},{"role":"assistant","content":"I am "}]`, chat: chattemplate.Chat{Continue: true}, want: "<user>hi</user><assistant>I am "},
		{name: "continue_trimmed", messages: `[{"role":"assistant","content":"I am "}]`, chat: chattemplate.Chat{Continue: true, Options: trimmed}, want: "<assistant>I am"},
		{name: "continue_parts", template: `{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}`, messages: `[{"content":[{"text":"a"},{"text":"b"}]}]`, chat: chattemplate.Chat{Continue: true}, want: "[a][b"},
		{name: "continue_nothing", messages: `[]`, chat: chattemplate.Chat{Continue: true}, refused: "needs a message"},
		{name: "continue_no_text", messages: `[{"role":"assistant","content":null}]`, chat: chattemplate.Chat{Continue: true}, refused: "has no text to continue"},
		{name: "continue_left_out", template: `x`, messages: `[{"role":"assistant","content":"a"}]`, chat: chattemplate.Chat{Continue: true}, refused: "leaves out the last message"},
		{name: "raised", template: `{{ raise_exception('Only user and assistant roles are supported!') }}`, messages: `[]`, refused: "Only user and assistant roles are supported!"},
		{name: "unfit", template: "\n{{ messages[0].content + 'x' }}", messages: `[{"content":7}]`, refused: "the chat does not fit the model's chat template: template t, line 2: unsupported operand type(s) for +: 'int' and 'str'"},
		{name: "thought", template: `{{ messages[0].reasoning_content }}{{ messages[0].thinking }}`, messages: `[{"reasoning":"why"}]`, want: "whywhy"},
		{name: "hostile", template: `{{ 'x' * 99999999999 }}`, messages: `[]`, refused: "bytes of memory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.template == "" {
				tc.template = chatML
			}
			set, err := chattemplate.New("t", tc.template, nil)
			if err != nil {
				t.Fatal(err)
			}
			tc.chat.Messages = list(t, tc.messages)
			got, err := set.Prompt(t.Context(), &tc.chat)
			var refusal *chattemplate.Refusal
			if tc.refused != "" {
				if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, tc.refused) {
					t.Errorf("got %q, %v, want it refused: %s", got, err, tc.refused)
				}
				return
			}
			if got != tc.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestStopped(t *testing.T) {
	set, err := chattemplate.New("t", `{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := set.Prompt(ctx, &chattemplate.Chat{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestTakesParts(t *testing.T) {
	for _, tc := range []struct {
		source string
		want   bool
	}{
		{chatML, false},
		{`{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}`, true},
		{`{% for m in messages %}{% for p in m['content'] | list %}{% endfor %}{% endfor %}`, true},
		{`{% for m in messages %}{% set c = m.content %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{% endfor %}{% endif %}{% endfor %}`, true},
		{`{% for m in messages[1:] %}{{ m.content[0] }}{% endfor %}`, false},
	} {
		set, err := chattemplate.New("t", tc.source, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.TakesParts(false); got != tc.want {
			t.Errorf("%s: got %v", tc.source, got)
		}
	}
}
