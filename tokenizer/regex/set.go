package regex

import (
	"strings"
	"unicode"

	"smg/tokenizer/ucd"
)

// set is a class of code points.
type set struct {
	ascii  [2]uint64 // members below 0x80, everything applied
	pairs  []rune    // first and last of ranges
	cats   uint32    // categories, by bit
	flags  ucd.Flags
	tables []*unicode.RangeTable
	space  bool
	subs   []*set // members too
	and    []*set // must hold them as well
	negate bool
	fold   bool // a member in another case is a member
}

// finish prepares the quick answer for ASCII. A set is not changed after it.
func (s *set) finish() *set {
	for r := range rune(0x80) {
		if s.slow(r) {
			s.ascii[r>>6] |= 1 << (r & 63)
		}
	}
	return s
}

func (s *set) has(r rune) bool {
	if uint32(r) < 0x80 {
		return s.ascii[r>>6]>>(r&63)&1 != 0
	}
	return s.slow(r)
}

func (s *set) slow(r rune) bool {
	in := s.holds(r)
	if !in && s.fold {
		for f := unicode.SimpleFold(r); f != r && !in; f = unicode.SimpleFold(f) {
			in = s.holds(f)
		}
	}
	if in {
		for _, a := range s.and {
			if !a.slow(r) {
				in = false
				break
			}
		}
	}
	return in != s.negate
}

func (s *set) holds(r rune) bool {
	for i := 0; i < len(s.pairs); i += 2 {
		if s.pairs[i] <= r && r <= s.pairs[i+1] {
			return true
		}
	}
	if s.space && ucd.Space(r) {
		return true
	}
	if s.cats != 0 && s.cats>>ucd.CategoryOf(r)&1 != 0 {
		return true
	}
	if s.flags != 0 && ucd.Is(r, s.flags) {
		return true
	}
	for _, t := range s.tables {
		if unicode.Is(t, r) {
			return true
		}
	}
	for _, sub := range s.subs {
		if sub.slow(r) {
			return true
		}
	}
	return false
}

// property is the class that \p{name} stands for, nil if there is none.
func property(name string) *set {
	key := strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(name))
	if key == "lc" {
		return &set{cats: 1<<ucd.Lu | 1<<ucd.Ll | 1<<ucd.Lt}
	}
	if long, ok := longNames[key]; ok {
		key = long
	}
	var cats uint32
	for i, n := range strings.Fields(ucd.Names) {
		if len(key) > 2 {
			break
		}
		n = strings.ToLower(n)
		if n == key || n[:1] == key {
			cats |= 1 << i
		}
	}
	if cats != 0 {
		return &set{cats: cats}
	}
	switch key {
	case "any":
		return &set{pairs: []rune{0, unicode.MaxRune}}
	case "ascii":
		return &set{pairs: []rune{0, 0x7F}}
	case "alnum":
		return &set{flags: ucd.Alphabetic, cats: 1 << ucd.Nd}
	case "alpha", "alphabetic":
		return &set{flags: ucd.Alphabetic}
	case "blank":
		return &set{cats: 1 << ucd.Zs, pairs: []rune{'\t', '\t'}}
	case "cntrl":
		return &set{cats: 1 << ucd.Cc}
	case "digit":
		return &set{cats: 1 << ucd.Nd}
	case "xdigit":
		return &set{pairs: []rune{'0', '9', 'A', 'F', 'a', 'f'}}
	case "space", "whitespace":
		return &set{space: true}
	case "word":
		return wordClass(false)
	case "upper":
		return &set{cats: 1 << ucd.Lu, tables: []*unicode.RangeTable{unicode.Other_Uppercase}}
	case "lower":
		return &set{cats: 1 << ucd.Ll, tables: []*unicode.RangeTable{unicode.Other_Lowercase}}
	case "extendedpictographic":
		return &set{flags: ucd.Pictographic}
	case "han":
		return &set{flags: ucd.Han}
	}
	// Scripts come from Go's tables: the newest letters may be missing.
	for n, t := range unicode.Scripts {
		if strings.ToLower(strings.ReplaceAll(n, "_", "")) == key {
			return &set{tables: []*unicode.RangeTable{t}}
		}
	}
	return nil
}

// longNames are the long names of categories.
var longNames = map[string]string{
	"letter": "l", "uppercaseletter": "lu", "lowercaseletter": "ll", "titlecaseletter": "lt", "casedletter": "lc",
	"modifierletter": "lm", "otherletter": "lo", "mark": "m", "nonspacingmark": "mn", "spacingmark": "mc",
	"enclosingmark": "me", "number": "n", "decimalnumber": "nd", "letternumber": "nl", "othernumber": "no",
	"punctuation": "p", "punct": "p", "connectorpunctuation": "pc", "dashpunctuation": "pd", "openpunctuation": "ps",
	"closepunctuation": "pe", "initialpunctuation": "pi", "finalpunctuation": "pf", "otherpunctuation": "po",
	"symbol": "s", "mathsymbol": "sm", "currencysymbol": "sc", "modifiersymbol": "sk", "othersymbol": "so",
	"separator": "z", "spaceseparator": "zs", "lineseparator": "zl", "paragraphseparator": "zp", "other": "c",
	"control": "cc", "format": "cf", "privateuse": "co", "unassigned": "cn",
}
