package tokenizer

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"smg/tokenizer/ucd"
)

// normalForm is text in NFD, NFKD, NFC or NFKC of the Unicode version that the
// reference has. golang.org/x/text knows the decompositions; its own forms are not
// used, since they know newer characters and break up long runs of marks.
func normalForm(text string, compat, compose bool) string {
	i := 0
	for i < len(text) && text[i] < utf8.RuneSelf {
		i++
	}
	if i == len(text) {
		return text
	}
	if i > 0 {
		i-- // marks may join the letter before them
	}
	f := former{compose: compose}
	f.out.Grow(len(text) + len(text)/4)
	f.out.WriteString(text[:i])
	var parts []rune
	for _, r := range text[i:] {
		parts = appendDecomposed(parts[:0], r, compat)
		for _, p := range parts {
			f.push(p)
		}
	}
	f.flush()
	return f.out.String()
}

// former gathers a letter and what may still change place or join with it.
type former struct {
	out     strings.Builder
	compose bool
	run     []rune
	classes []uint8
}

func (f *former) push(r rune) {
	c := combiningClass(r)
	if c == 0 && len(f.run) > 0 && (!f.compose || settled(r)) {
		f.flush()
	}
	f.run = append(f.run, r)
	f.classes = append(f.classes, c)
}

func (f *former) flush() {
	if len(f.run) > 1 {
		reorder(f.run, f.classes)
		if f.compose {
			f.run = recompose(f.run, f.classes)
		}
	}
	for _, r := range f.run {
		f.out.WriteRune(r)
	}
	f.run, f.classes = f.run[:0], f.classes[:0]
}

// settled reports whether r, a starter, is never the second of a pair that joins.
func settled(r rune) bool {
	if r < 0x300 {
		return true
	}
	if r >= 0x1161 && r <= 0x1175 || r >= 0x11A8 && r <= 0x11C2 {
		return false
	}
	return !pairs().seconds[r]
}

const (
	hangulBase  = 0xAC00
	hangulCount = 11172
	leadBase    = 0x1100
	vowelBase   = 0x1161
	tailBase    = 0x11A7
	tailCount   = 28
	vowelCount  = 21
	leadCount   = 19
)

func appendDecomposed(run []rune, r rune, compat bool) []rune {
	if r < 0xA0 {
		return append(run, r)
	}
	if r >= hangulBase && r < hangulBase+hangulCount {
		s := r - hangulBase
		run = append(run, leadBase+s/(vowelCount*tailCount), vowelBase+s%(vowelCount*tailCount)/tailCount)
		if t := s % tailCount; t > 0 {
			run = append(run, tailBase+t)
		}
		return run
	}
	f, which := norm.NFD, ucd.Decomposes
	if compat {
		f, which = norm.NFKD, ucd.DecomposesCompat
	}
	if !ucd.Is(r, which) {
		return append(run, r)
	}
	var buf [utf8.UTFMax]byte
	n := utf8.EncodeRune(buf[:], r)
	for _, d := range string(f.Properties(buf[:n]).Decomposition()) {
		run = append(run, d)
	}
	return run
}

func combiningClass(r rune) uint8 {
	if r < 0x300 || !ucd.Is(r, ucd.NonStarter) {
		return 0
	}
	var buf [utf8.UTFMax]byte
	n := utf8.EncodeRune(buf[:], r)
	return norm.NFD.Properties(buf[:n]).CCC()
}

// reorder sorts runs of marks by their class and keeps equal ones in order.
func reorder(run []rune, classes []uint8) {
	for i := 0; i < len(run); {
		if classes[i] == 0 {
			i++
			continue
		}
		j := i
		for j < len(run) && classes[j] != 0 {
			j++
		}
		sortMarks(run[i:j], classes[i:j])
		i = j
	}
}

func sortMarks(run []rune, classes []uint8) {
	if slices.IsSorted(classes) {
		return
	}
	type mark struct {
		r rune
		c uint8
	}
	marks := make([]mark, len(run))
	for i := range run {
		marks[i] = mark{run[i], classes[i]}
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return int(a.c) - int(b.c) })
	for i, m := range marks {
		run[i], classes[i] = m.r, m.c
	}
}

// recompose joins letters with the marks behind them where there is one character for both.
func recompose(run []rune, classes []uint8) []rune {
	out := run[:0]
	starter := -1
	last := -1 // class of what stands before, -1 right behind the starter
	for i, r := range run {
		c := int(classes[i])
		if starter >= 0 && (last == -1 || last < c && last != 0) {
			if joined, ok := joinPair(out[starter], r); ok {
				out[starter] = joined
				continue
			}
		}
		if c == 0 {
			starter, last = len(out), -1
		} else {
			last = c
		}
		out = append(out, r)
	}
	return out
}

func joinPair(a, b rune) (rune, bool) {
	switch {
	case a >= leadBase && a < leadBase+leadCount && b >= vowelBase && b < vowelBase+vowelCount:
		return hangulBase + ((a-leadBase)*vowelCount+b-vowelBase)*tailCount, true
	case a >= hangulBase && a < hangulBase+hangulCount && (a-hangulBase)%tailCount == 0 && b > tailBase && b < tailBase+tailCount:
		return a + b - tailBase, true
	}
	r, ok := pairs().joined[[2]rune{a, b}]
	return r, ok
}

// pairTable are the pairs of characters that have one for both.
type pairTable struct {
	joined  map[[2]rune]rune
	seconds map[rune]bool
}

var pairs = sync.OnceValue(func() pairTable {
	t := pairTable{joined: map[[2]rune]rune{}, seconds: map[rune]bool{}}
	var buf [utf8.UTFMax]byte
	for r := rune(0xC0); r < 0x30000; r++ {
		if !ucd.Is(r, ucd.Composes) || r >= hangulBase && r < hangulBase+hangulCount {
			continue
		}
		n := utf8.EncodeRune(buf[:], r)
		d := []rune(string(norm.NFD.Properties(buf[:n]).Decomposition()))
		if len(d) < 2 {
			continue
		}
		// All but the last mark are one character as well.
		first := d[0]
		if len(d) > 2 {
			whole := []rune(norm.NFC.String(string(d[:len(d)-1])))
			if len(whole) != 1 {
				continue
			}
			first = whole[0]
		}
		t.joined[[2]rune{first, d[len(d)-1]}] = r
		t.seconds[d[len(d)-1]] = true
	}
	return t
})
