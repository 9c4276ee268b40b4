package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Python changes case by all of Unicode's rules, by which one character can become
// several. Text in ASCII needs none of them.

func upper(s string) string {
	if ascii(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

func lower(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

// titled is c at the beginning of a word.
func titled(c rune) string {
	if c < utf8.RuneSelf {
		return string(unicode.ToUpper(c))
	}
	return cases.Title(language.Und, cases.NoLower).String(string(c))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
