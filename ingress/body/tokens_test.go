package body_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/ingress/body"
)

func TestTokens(t *testing.T) {
	many := "[" + strings.Repeat("7,", body.MaxTokens+9) + "7]"
	tests := []struct {
		name  string
		ids   body.Tokener
		in    string
		want  []uint32
		count int64
	}{
		{"a flat list", body.TokensGenerate, `{"input_ids":[0,1, 22 ,4294967295]}`, []uint32{0, 1, 22, 4294967295}, 4},
		{"the first sequence of a batch", body.TokensGenerate, `{"input_ids":[ [1 ,2],[3],"x"]}`, []uint32{1, 2}, 2},
		{"the last of a repeated key", body.TokensGenerate, `{"input_ids":[1],"input_ids":[2]}`, []uint32{2}, 1},
		{"an empty list", body.TokensGenerate, `{"input_ids":[ ]}`, nil, 0},
		{"an empty first sequence", body.TokensGenerate, `{"input_ids":[[],[1]]}`, nil, 0},
		{"absent", body.TokensGenerate, `{"text":"a"}`, nil, 0},
		{"null", body.TokensGenerate, `{"input_ids":null}`, nil, 0},
		{"a number", body.TokensGenerate, `{"input_ids":1}`, nil, 0},
		{"an object", body.TokensGenerate, `{"input_ids":{"0":1}}`, nil, 0},
		{"a negative id", body.TokensGenerate, `{"input_ids":[1,-1]}`, nil, 0},
		{"a fraction", body.TokensGenerate, `{"input_ids":[1,2.0]}`, nil, 0},
		{"an exponent", body.TokensGenerate, `{"input_ids":[1,2e1]}`, nil, 0},
		{"33 bits", body.TokensGenerate, `{"input_ids":[4294967296]}`, nil, 0},
		{"65 bits", body.TokensGenerate, `{"input_ids":[18446744073709551617]}`, nil, 0},
		{"a string", body.TokensGenerate, `{"input_ids":["1"]}`, nil, 0},
		{"null among ids", body.TokensGenerate, `{"input_ids":[1,null]}`, nil, 0},
		{"a list among ids", body.TokensGenerate, `{"input_ids":[1,[2]]}`, nil, 0},
		{"three levels", body.TokensGenerate, `{"input_ids":[[[1]]]}`, nil, 0},
		{"more than routing looks at", body.TokensGenerate, `{"input_ids":` + many + `}`, slices.Repeat([]uint32{7}, body.MaxTokens), body.MaxTokens + 10},
		{"a fault beyond that", body.TokensGenerate, `{"input_ids":[` + many[1:len(many)-1] + `,-1]}`, nil, 0},
		{"a prompt of ids", body.TokensCompletions, `{"prompt":[1,2]}`, []uint32{1, 2}, 2},
		{"a prompt of text", body.TokensCompletions, `{"prompt":["1","2"]}`, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(t, tt.in)
			got, count := tt.ids(b, []uint32{9})
			if diff := cmp.Diff(append([]uint32{9}, tt.want...), got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
			if count != tt.count {
				t.Errorf("%d ids, want %d", count, tt.count)
			}
		})
	}
}

func TestParseTokens(t *testing.T) {
	ids := func(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }
	tests := []struct {
		name  string
		value string
		want  []uint32
		ok    bool
	}{
		{"one", "7", []uint32{7}, true},
		{"three", "1,2,4294967295", []uint32{1, 2, 4294967295}, true},
		{"leading zeros", "007,00000000000000000000001", []uint32{7, 1}, true},
		{"512 ids", ids(512), slices.Repeat([]uint32{1}, 512), true},
		{"4096 bytes", strings.Repeat("0", 4095) + "1", []uint32{1}, true},
		{"513 ids", ids(513), nil, false},
		{"4097 bytes", strings.Repeat("0", 4096) + "1", nil, false},
		{"nothing", "", nil, false},
		{"a comma", ",", nil, false},
		{"an empty element", "1,,2", nil, false},
		{"a comma before", ",1", nil, false},
		{"a comma after", "1,", nil, false},
		{"a blank", "1, 2", nil, false},
		{"a blank after", "1 ", nil, false},
		{"a sign", "+1", nil, false},
		{"a negative number", "1,-1", nil, false},
		{"hex", "0x1", nil, false},
		{"a fraction", "1.0", nil, false},
		{"an underscore", "1_0", nil, false},
		{"33 bits", "4294967296", nil, false},
		{"65 bits", "18446744073709551617", nil, false},
		{"other digits", "\u0661", nil, false},
		{"no UTF-8", "1,\xff", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := body.ParseTokens([]uint32{9}, tt.value)
			if diff := cmp.Diff(append([]uint32{9}, tt.want...), got); diff != "" || ok != tt.ok {
				t.Errorf("ok is %v, ids (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// A header and a body with the same ids are the same to a policy.
func TestTokensOfHeaderAndBody(t *testing.T) {
	b := parse(t, `{"input_ids":[1,2,3]}`)
	of, _ := body.TokensGenerate(b, nil)
	hint, ok := body.ParseTokens(nil, "1,2,3")
	if diff := cmp.Diff(of, hint); diff != "" || !ok {
		t.Errorf("ok is %v, ids (-body +header):\n%s", ok, diff)
	}
}
