package prepare

import (
	"fmt"
	"math"
	"slices"

	"smg/engine/rpc"
	"smg/tokenizer/jinja"
	"smg/tokens"
)

// prompts reads and encodes the prompts of completions and of Generate.
func (r *Request) prompts(f *fields, m *tokens.Model) error {
	name := "prompt"
	if r.Route == Generate {
		if name = "text"; f.has("input_ids") {
			name = "input_ids"
		}
	}
	v := f.get(name)
	special := f.boolean("add_special_tokens", true)
	keep := r.truncation(f, m)
	list, isList := v.(*jinja.List)
	switch {
	case !isList:
		list = &jinja.List{Items: []jinja.Value{v}}
	case len(list.Items) > 0 && isNumber(list.Items[0]):
		list = &jinja.List{Items: []jinja.Value{v}} // the ids of one
	default:
		r.Batch = true
	}
	if len(list.Items) > maxChoices {
		return unsupported("%d prompts in one request, more than %d", len(list.Items), maxChoices)
	}
	if len(list.Items) == 0 {
		return invalid("%s is empty", name)
	}
	r.Prompts = make([]Prompt, len(list.Items))
	for i, v := range list.Items {
		p := &r.Prompts[i]
		text, isText := v.(string)
		ids, isIDs := tokenIDs(v)
		switch {
		case isText && name != "input_ids":
			var err error
			if p.Text, p.Tokens, err = text, nil, nil; text != "" {
				p.Tokens, err = encode(m, text, special)
			}
			if err != nil {
				return err
			}
		case isIDs && name != "text":
			p.Tokens = ids
		default:
			return invalid("%s must be %s", name, map[string]string{
				"prompt": "a string, a list of token ids, or a list of either", "text": "a string or a list of strings", "input_ids": "a list of token ids, or a list of such lists",
			}[name])
		}
		if keep > 0 && len(p.Tokens) > keep {
			p.Tokens, p.Text = p.Tokens[len(p.Tokens)-keep:], ""
		}
	}
	if r.Route == Generate {
		r.generateEach(f)
		return nil
	}
	w := openAILogprobs(f, r.Route, r.Echo)
	for i := range r.Prompts {
		r.Prompts[i].Logprobs = w
	}
	return nil
}

func isNumber(v jinja.Value) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// truncation is how many of a prompt's last tokens are kept, 0 for all.
func (r *Request) truncation(f *fields, m *tokens.Model) int {
	n, ok := f.whole("truncate_prompt_tokens", -1, math.MaxInt32)
	switch {
	case !ok:
		return 0
	case n == 0:
		f.fail("truncate_prompt_tokens must be above 0, or -1 for as many as fit")
	case n == -1:
		return max(m.Context-1, 0)
	}
	return int(n)
}

func encode(m *tokens.Model, text string, special bool) ([]uint32, error) {
	ids, err := m.Encode(text, special)
	if err != nil {
		return nil, &Fault{CodeTokens, fmt.Sprintf("the prompt cannot be tokenised: %v", err)}
	}
	return slices.Clip(ids), nil
}

// generateEach reads what Generate has for each prompt of a batch: ids, and the
// probabilities that are wanted.
func (r *Request) generateEach(f *fields) {
	rids := f.strs("rid")
	if _, one := f.get("rid").(string); one && r.Batch {
		// SGLang makes names of one for a batch.
		one := rids[0]
		rids = nil
		for i := range r.Prompts {
			rids = append(rids, fmt.Sprintf("%s_%d", one, i))
		}
	}
	if rids != nil && len(rids) != len(r.Prompts) {
		f.fail("rid has %d names for %d prompts", len(rids), len(r.Prompts))
		return
	}
	asked, top := r.each(f, "return_logprob"), r.each(f, "top_logprobs_num")
	from, ids := r.each(f, "logprob_start_len"), f.get("token_ids_logprob")
	text := f.boolean("return_text_in_logprobs", false)
	if f.fault != nil {
		return
	}
	for i := range r.Prompts {
		p := &r.Prompts[i]
		if rids != nil {
			p.ID = rids[i]
		}
		one := &fields{dict: &jinja.Dict{}}
		one.dict.Set("return_logprob", asked[i])
		one.dict.Set("top_logprobs_num", top[i])
		one.dict.Set("logprob_start_len", from[i])
		p.TokenText = text
		w := rpc.LogprobsWanted{From: one.wholeOr("logprob_start_len", -1, -1, math.MaxInt32), Top: one.wholeOr("top_logprobs_num", 0, 0, maxTop)}
		w.Output = one.boolean("return_logprob", false)
		f.take(one)
		if !w.Output {
			continue
		}
		if w.Prompt = w.From >= 0; !w.Prompt {
			w.From = 0
		}
		w.Tokens = r.asked(f, ids, i)
		p.Logprobs = w
	}
}

// each is a key's value for each prompt: a list of them, or one for all.
func (r *Request) each(f *fields, name string) []jinja.Value {
	v := f.get(name)
	l, ok := v.(*jinja.List)
	if !ok {
		return slices.Repeat([]jinja.Value{v}, len(r.Prompts))
	}
	if len(l.Items) != len(r.Prompts) || !r.Batch {
		f.fail("%s has %d values for %d prompts", name, len(l.Items), len(r.Prompts))
		return slices.Repeat([]jinja.Value{nil}, len(r.Prompts))
	}
	return l.Items
}

// asked are the tokens of which the i-th prompt wants the probabilities.
func (r *Request) asked(f *fields, v jinja.Value, i int) []uint32 {
	if v == nil {
		return nil
	}
	l, _ := v.(*jinja.List)
	if l != nil && len(l.Items) > 0 && !isNumber(l.Items[0]) {
		if len(l.Items) != len(r.Prompts) {
			f.fail("token_ids_logprob has %d lists for %d prompts", len(l.Items), len(r.Prompts))
			return nil
		}
		if v = l.Items[i]; v == nil {
			return nil
		}
	}
	ids, ok := tokenIDs(v)
	if !ok {
		f.fail("token_ids_logprob must be a list of token ids")
	}
	return ids
}
