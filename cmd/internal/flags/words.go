package flags

import "strings"

// splitWords splits s as a shell would: at blanks, but for what is quoted or behind
// a backslash. Nothing is expanded.
func splitWords(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped := false, false
	quote := rune(0)
	for _, r := range s {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			inWord, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			inWord, quote = true, r
		case quote == 0 && strings.ContainsRune(" \t\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || escaped {
		return nil, &badValue{"a quote is not closed", "write it as for a shell"}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
