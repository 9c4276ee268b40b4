package tokenizer

// wordSplit is how the words of a family of models are found, by the name that
// GGUF files have for it.
type wordSplit struct {
	patterns []string
	whole    bool // a word of the vocabulary is taken whole
	bos      bool // the beginning-of-text token comes unless the file says no
}

const (
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	o200kPattern  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` +
		`|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	bloomPattern    = ` ?[^(\s|.,!?…。，、।۔،)]+`
	deepseekPattern = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" +
		`|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// splits are the names that are known.
var splits = func() map[string]wordSplit {
	m := map[string]wordSplit{}
	add := func(s wordSplit, names ...string) {
		for _, n := range names {
			m[n] = s
		}
	}
	add(wordSplit{patterns: []string{llama3Pattern}, whole: true, bos: true}, "llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral")
	add(wordSplit{patterns: []string{llama3Pattern}}, "dbrx", "smaug-bpe", "chatglm-bpe", "glm4")
	add(wordSplit{patterns: []string{qwen2Pattern}}, "qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "megrez")
	add(wordSplit{patterns: []string{o200kPattern}}, "gpt-4o", "llama4")
	add(wordSplit{patterns: []string{tekkenPattern}, whole: true, bos: true}, "tekken")
	add(wordSplit{patterns: []string{`\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`, deepseekPattern}}, "deepseek-v3")
	add(wordSplit{patterns: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`}}, "deepseek-coder")
	add(wordSplit{patterns: []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2Pattern, `[0-9][0-9][0-9]`}}, "falcon")
	add(wordSplit{patterns: []string{`\p{N}`, gpt2Pattern}}, "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b")
	add(wordSplit{patterns: []string{gpt2Pattern}}, "gpt-2", "gpt2", "mpt", "olmo", "jais", "phi-2", "gigachat", "roberta-bpe")
	add(wordSplit{patterns: []string{bloomPattern}}, "bloom", "poro-chat", "gpt3-finnish")
	add(wordSplit{patterns: []string{bloomPattern, `\p{N}`}}, "viking")
	return m
}()
