// Package ucd tells what the reference tokenizers know of a code point. They
// take Unicode data of several versions from five libraries, and none of them is
// that of Go's package unicode, so the tables were recorded from the reference
// (test/tokenizer/tables.py). All functions may be called concurrently.
package ucd

import (
	_ "embed"
	"sort"
	"strings"
)

//go:embed tables.bin
var data string

// Category is the general category of a code point, as regular expressions see it.
type Category uint8

// The general categories. None is that of unassigned code points and surrogates.
const (
	None Category = iota
	Lu
	Ll
	Lt
	Lm
	Lo
	Mn
	Mc
	Me
	Nd
	Nl
	No
	Pc
	Pd
	Ps
	Pe
	Pi
	Pf
	Po
	Sm
	Sc
	Sk
	So
	Zs
	Zl
	Zp
	Cc
	Cf
	Co
)

// Names are the short names of the categories, in their order.
const Names = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co"

// Flags are yes-or-no properties of a code point.
type Flags uint16

// The properties. Word to Pictographic are those of normalizers and
// pre-tokenizers; NonStarter to Composes are what normal forms need; the rest is
// for regular expressions, where RegexWord is \w and PosixPunct [[:punct:]].
const (
	Word        Flags = 1 << iota // \w of added tokens and of Whitespace
	Numeric                       // Digits
	Punctuation                   // Punctuation and BertPreTokenizer
	Other                         // control and the like, for BertNormalizer
	Nonspacing                    // accents of BertNormalizer
	Combining                     // accents of StripAccents
	Extends                       // stays in the cluster of the letter before it
	Pictographic
	NonStarter
	Decomposes
	DecomposesCompat
	Composes
	Han
	Alphabetic
	RegexWord
	PosixPunct
)

// size is how many blocks of 256 code points there are.
const size = 0x110000 >> 8

// trie is a byte for each code point: an index of blocks, and the blocks.
type trie struct{ index, blocks string }

func (t trie) at(r rune) byte {
	if uint32(r) >= 0x110000 {
		return 0
	}
	i := int(r>>8) * 2
	b := int(t.index[i]) | int(t.index[i+1])<<8
	return t.blocks[b<<8|int(r&0xFF)]
}

// tables are the parts of the recorded file.
type tables struct {
	category, flags, more, script trie
	lower                         string
}

var recorded = parse(data)

func parse(s string) tables {
	next := func(n int) string {
		head := s[:n]
		s = s[n:]
		return head
	}
	readTrie := func() trie {
		n := next(2)
		blocks := int(n[0]) | int(n[1])<<8
		return trie{index: next(2 * size), blocks: next(blocks << 8)}
	}
	t := tables{category: readTrie(), flags: readTrie(), more: readTrie(), script: readTrie()}
	next(2)
	t.lower = s
	return t
}

// CategoryOf is the general category of r.
func CategoryOf(r rune) Category { return Category(recorded.category.at(r)) }

// FlagsOf are all properties of r.
func FlagsOf(r rune) Flags {
	return Flags(recorded.flags.at(r)) | Flags(recorded.more.at(r))<<8
}

// Is reports whether r has one of the properties.
func Is(r rune, f Flags) bool { return FlagsOf(r)&f != 0 }

// Script is a number for the script of r, as UnicodeScripts sees it; 0 belongs to any.
func Script(r rune) uint8 { return recorded.script.at(r) }

// Space reports whether r is white space.
func Space(r rune) bool {
	switch {
	case r < 0x80:
		return r == ' ' || r >= '\t' && r <= '\r'
	case r < 0x1680:
		return r == 0x85 || r == 0xA0
	}
	return r == 0x1680 || r >= 0x2000 && r <= 0x200A || r == 0x2028 || r == 0x2029 || r == 0x202F || r == 0x205F || r == 0x3000
}

// Lower is r in lower case. U+0130 becomes two, which AppendLower knows.
func Lower(r rune) rune {
	if r < 0x80 {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	t := recorded.lower
	n := len(t) / 8
	i := sort.Search(n, func(i int) bool { return le32(t[8*i:]) >= uint32(r) })
	if i < n && le32(t[8*i:]) == uint32(r) {
		return rune(le32(t[8*i+4:]))
	}
	return r
}

// WriteLower appends r in lower case to b.
func WriteLower(b *strings.Builder, r rune) {
	if r == 0x130 {
		b.WriteString("i̇")
		return
	}
	b.WriteRune(Lower(r))
}

func le32(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}
