package body_test

import (
	"testing"

	"smg/ingress/body"
)

func TestChecks(t *testing.T) {
	const (
		typ  = body.KindType
		rule = body.KindRule
	)
	tests := []struct {
		name  string
		check body.Check
		in    string
		kind  body.Kind // 0 for a body that fits
		key   string
		want  string
	}{
		{"chat", body.CheckChat, `{"model":"m","messages":[{}]}`, 0, "", ""},
		{"chat with all", body.CheckChat, `{"model":"m","messages":[{}],"stream":null,"n":1,"x":{}}`, 0, "", ""},
		{"chat without model", body.CheckChat, `{"messages":[{}]}`, rule, "model", `"model" is required`},
		{"chat null model", body.CheckChat, `{"model":null,"messages":[{}]}`, rule, "model", `"model" is required (line 1, column 10, byte 9)`},
		{"chat model number", body.CheckChat, `{"model":7,"messages":[{}]}`, typ, "model", `"model" must be a string, not a number (line 1, column 10, byte 9)`},
		{"chat last model counts", body.CheckChat, `{"model":7,"messages":[{}],"model":"m"}`, 0, "", ""},
		{"chat without messages", body.CheckChat, `{"model":"m"}`, rule, "messages", `"messages" is required`},
		{"chat messages object", body.CheckChat, `{"model":"m","messages":{}}`, typ, "messages", `"messages" must be an array, not an object (line 1, column 25, byte 24)`},
		{"chat no messages", body.CheckChat, `{"model":"m","messages":[ ]}`, rule, "messages", `"messages" must hold at least one message (line 1, column 25, byte 24)`},
		{"chat stream string", body.CheckChat, `{"model":"m","messages":[{}],"stream":"yes"}`, typ, "stream", `"stream" must be a boolean, not a string (line 1, column 39, byte 38)`},
		{"chat n string", body.CheckChat, `{"model":"m","messages":[{}],"n":"2"}`, typ, "n", `"n" must be a number, not a string (line 1, column 34, byte 33)`},
		{"chat n half", body.CheckChat, `{"model":"m","messages":[{}],"n":1.5}`, typ, "n", `"n" must be a whole number (line 1, column 34, byte 33)`},
		{"chat n none", body.CheckChat, `{"model":"m","messages":[{}],"n":0}`, rule, "n", `"n" must be at least 1 (line 1, column 34, byte 33)`},
		{"completion", body.CheckCompletions, `{"model":"m","prompt":""}`, 0, "", ""},
		{"completion of list", body.CheckCompletions, `{"model":"m","prompt":["a"],"n":2.0}`, 0, "", ""},
		{"completion without model", body.CheckCompletions, `{"prompt":""}`, rule, "model", `"model" is required`},
		{"completion without prompt", body.CheckCompletions, `{"model":"m","prompt":null}`, rule, "prompt", `"prompt" is required (line 1, column 23, byte 22)`},
		{"completion prompt number", body.CheckCompletions, `{"model":"m","prompt":1}`, typ, "prompt", `"prompt" must be a string or an array, not a number (line 1, column 23, byte 22)`},
		{"completion stream number", body.CheckCompletions, `{"model":"m","prompt":"","stream":1}`, typ, "stream", `"stream" must be a boolean, not a number (line 1, column 35, byte 34)`},
		{"generate text", body.CheckGenerate, `{"text":"a"}`, 0, "", ""},
		{"generate texts", body.CheckGenerate, `{"text":["a","b"],"rid":["1","2"],"stream":null}`, 0, "", ""},
		{"generate ids", body.CheckGenerate, `{"input_ids":[1,2],"text":null,"model":null}`, 0, "", ""},
		{"generate neither", body.CheckGenerate, `{"model":"m"}`, rule, "text", `"text" or "input_ids" is required`},
		{"generate both", body.CheckGenerate, `{"text":"a","input_ids":[1]}`, rule, "input_ids", `give either "text" or "input_ids", not both (line 1, column 25, byte 24)`},
		{"generate model type", body.CheckGenerate, `{"text":"a","model":[]}`, typ, "model", `"model" must be a string, not an array (line 1, column 21, byte 20)`},
		{"generate text type", body.CheckGenerate, `{"text":{}}`, typ, "text", `"text" must be a string or an array, not an object (line 1, column 9, byte 8)`},
		{"generate ids type", body.CheckGenerate, `{"input_ids":"1"}`, typ, "input_ids", `"input_ids" must be an array, not a string (line 1, column 14, byte 13)`},
		{"generate rid type", body.CheckGenerate, `{"text":"a","rid":1}`, typ, "rid", `"rid" must be a string or an array, not a number (line 1, column 19, byte 18)`},
		{"generate stream type", body.CheckGenerate, `{"text":"a","stream":1}`, typ, "stream", `"stream" must be a boolean, not a number (line 1, column 22, byte 21)`},
		{"messages", body.CheckMessages, `{"model":"m","max_tokens":9,"messages":[{}],"stream":true}`, 0, "", ""},
		{"messages without a limit", body.CheckMessages, `{"model":"m","messages":[{}]}`, rule, "max_tokens", `"max_tokens" is required`},
		{"messages without model", body.CheckMessages, `{"max_tokens":9,"messages":[{}]}`, rule, "model", `"model" is required`},
		{"messages none", body.CheckMessages, `{"model":"m","max_tokens":9,"messages":[]}`, rule, "messages", `"messages" must hold at least one message (line 1, column 40, byte 39)`},
		{"messages stream number", body.CheckMessages, `{"model":"m","max_tokens":9,"messages":[{}],"stream":1}`, typ, "stream", `"stream" must be a boolean, not a number (line 1, column 54, byte 53)`},
		{"responses", body.CheckResponses, `{"model":"m","input":"a"}`, 0, "", ""},
		{"responses of items", body.CheckResponses, `{"model":"m","input":[{}],"stream":false}`, 0, "", ""},
		{"responses without input", body.CheckResponses, `{"model":"m"}`, rule, "input", `"input" is required`},
		{"responses stream number", body.CheckResponses, `{"model":"m","input":"a","stream":1}`, typ, "stream", `"stream" must be a boolean, not a number (line 1, column 35, byte 34)`},
		{"input", body.CheckInput, `{"model":"m","input":["a"]}`, 0, "", ""},
		{"input without model", body.CheckInput, `{"input":"a"}`, rule, "model", `"model" is required`},
		{"input number", body.CheckInput, `{"model":"m","input":1}`, typ, "input", `"input" must be a string or an array, not a number (line 1, column 22, byte 21)`},
		{"rerank", body.CheckRerank, `{"query":"a","documents":["b"]}`, 0, "", ""},
		{"rerank without query", body.CheckRerank, `{"documents":["b"]}`, rule, "query", `"query" is required`},
		{"rerank no documents", body.CheckRerank, `{"query":"a","documents":[]}`, rule, "documents", `"documents" must hold at least one document (line 1, column 26, byte 25)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.check(parse(t, tt.in))
			if tt.kind == 0 {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			e := fault(t, err)
			if e.Kind != tt.kind || e.Key != tt.key || e.Error() != tt.want {
				t.Errorf("got %v %q %q\nwant %v %q %q", e.Kind, e.Key, e, tt.kind, tt.key, tt.want)
			}
		})
	}
}

func TestKindClass(t *testing.T) {
	tests := []struct {
		kind body.Kind
		name string
		want body.Class
	}{
		{body.KindSyntax, "syntax", body.ClassParse},
		{body.KindEmpty, "empty", body.ClassParse},
		{body.KindTrailing, "trailing_data", body.ClassParse},
		{body.KindDepth, "depth", body.ClassParse},
		{body.KindTooLarge, "too_large", body.ClassParse},
		{body.KindNotObject, "not_object", body.ClassType},
		{body.KindType, "type", body.ClassType},
		{body.KindRule, "rule", body.ClassRule},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.kind.Class() != tt.want || tt.kind.String() != tt.name {
				t.Errorf("got %v %v", tt.kind, tt.kind.Class())
			}
		})
	}
}

// The numbered cases, as far as they are a matter of the body alone.
func TestGateway(t *testing.T) {
	t.Run("16_body_generate_without_model", func(t *testing.T) {
		b := parse(t, `{"text":"hi"}`)
		if err := body.CheckGenerate(b); err != nil {
			t.Error(err)
		}
		if b.Model() != body.UnknownModel || b.Field(body.KeyModel).Given() {
			t.Errorf("got model %q", b.Model())
		}
		if e := fault(t, body.CheckChat(parse(t, `{"messages":[{}]}`))); e.Kind.Class() != body.ClassRule {
			t.Errorf("got %v, want a rule fault", e.Kind)
		}
	})
	t.Run("17_body_bad_json", func(t *testing.T) {
		for _, in := range []string{``, `{`, `{"text":"a}`, `{"a":1}}`, "{\"a\":\"\xff\"}", `nope`} {
			_, err := body.Parse([]byte(in), body.DefaultMaxDepth)
			if e := fault(t, err); e.Kind.Class() != body.ClassParse {
				t.Errorf("%q: got %v, want a parse fault", in, e.Kind)
			}
		}
	})
	t.Run("82_duplicate_and_escaped_keys", func(t *testing.T) {
		b := parse(t, `{"model":"a","stream":true,"bootstrap\u005froom":1,"n":1,"m\u006fdel":"b","text":"x","stream":false,`+
			`"bootstrap_room":2,"\u006e":2,"kv_transfer_params":{"a":[1]},"bootstrap_host":"h","k\u0076_transfer_params":null}`)
		if got := string(b.Normalize()); got != `{"bootstrap\u005froom":1,"m\u006fdel":"b","text":"x","stream":false,`+
			`"bootstrap_room":2,"\u006e":2,"kv_transfer_params":{"a":[1]},"bootstrap_host":"h","k\u0076_transfer_params":null}` {
			t.Errorf("Normalize: got %s", got)
		}
		got := string(b.Edit(body.Remove("bootstrap_room"), body.Remove("bootstrap_host"),
			body.Remove("bootstrap_port"), body.Remove("kv_transfer_params")))
		if want := `{"m\u006fdel":"b","text":"x","stream":false,"\u006e":2}`; got != want {
			t.Errorf("Edit: got %s, want %s", got, want)
		}
	})
}
