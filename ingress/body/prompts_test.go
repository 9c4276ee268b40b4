package body

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestCount(t *testing.T) {
	tests := []struct {
		name  string
		count Count
		body  string
		want  int
	}{
		{"chat", CountChat, `{"model":"m","messages":[{}]}`, 0},
		{"chat of one answer", CountChat, `{"model":"m","messages":[{}],"n":1}`, 0},
		{"chat of three answers", CountChat, `{"model":"m","messages":[{}],"n":3}`, 3},
		{"chat of more than anybody wants", CountChat, `{"model":"m","messages":[{}],"n":1000000000}`, maxPrompts},
		{"a prompt", CountCompletions, `{"model":"m","prompt":"a"}`, 0},
		{"an array of one prompt", CountCompletions, `{"model":"m","prompt":["a"]}`, 1},
		{"three prompts and n", CountCompletions, `{"model":"m","prompt":["a","b,]","c\"]"],"n":4}`, 3},
		{"token ids are one prompt", CountCompletions, `{"model":"m","prompt":[1,2,3]}`, 0},
		{"lists of token ids", CountCompletions, `{"model":"m","prompt":[[1,2],[3]]}`, 2},
		{"a text", CountGenerate, `{"text":"a"}`, 0},
		{"a list of texts", CountGenerate, `{"text":["a","b"]}`, 2},
		{"flat input ids", CountGenerate, `{"input_ids":[1,2]}`, 0},
		{"lists of input ids", CountGenerate, `{"input_ids":[[1],[2],[3,4]]}`, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Parse([]byte(tt.body), DefaultMaxDepth)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.count(&b); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestElementsAgreesWithEncodingJSON(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) any { return drawValue(t, 3) })
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(value, 0, 6).Draw(t, "list")
		raw, err := json.MarshalIndent(list, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := elements(raw); n != len(list) {
			t.Errorf("%s: %d elements, want %d", raw, n, len(list))
		}
	})
}

func drawValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "len"))
		for i := range list {
			list[i] = drawValue(t, depth-1)
		}
		return list
	case kind == 1 && depth > 0:
		return map[string]any{rapid.String().Draw(t, "key"): drawValue(t, depth-1)}
	case kind == 2:
		return rapid.String().Draw(t, "text")
	case kind == 3:
		return rapid.Bool().Draw(t, "bool")
	case kind == 4:
		return nil
	}
	return rapid.Int().Draw(t, "int")
}
