package flags

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// nearEnough is the edit distance up to which a name counts as a typo.
	nearEnough = 2
	// maxSuggestions keeps a hint to one line.
	maxSuggestions = 3
)

// suggest returns up to three of known that name may have meant, best first: typos,
// then the same words in another order, then names that go on where name ends.
func suggest(name string, known []string) []string {
	type match struct {
		name string
		rank int
	}
	var found []match
	for _, k := range known {
		switch d := distance(name, k); {
		case d <= nearEnough && d < len(k):
			found = append(found, match{k, d})
		case sameWords(name, k):
			found = append(found, match{k, nearEnough + 1})
		case len(name) > nearEnough && strings.HasPrefix(k, name):
			found = append(found, match{k, nearEnough + 2})
		}
	}
	slices.SortStableFunc(found, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(len(a.name), len(b.name)))
	})
	var out []string
	for _, m := range found[:min(len(found), maxSuggestions)] {
		out = append(out, m.name)
	}
	return out
}

// sameWords says whether a and b are the same words in another order.
func sameWords(a, b string) bool {
	x, y := strings.Split(a, "-"), strings.Split(b, "-")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// distance is the number of characters to insert, delete or replace.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, q := range y {
			above := row[j+1]
			cost := 1
			if r == q {
				cost = 0
			}
			row[j+1] = min(above+1, row[j]+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(y)]
}

// didYouMean turns suggestions into a hint, or returns otherwise where there are
// none.
func didYouMean(names []string, dashes, otherwise string) string {
	if len(names) == 0 {
		return otherwise
	}
	for i, n := range names {
		names[i] = dashes + n
	}
	return "did you mean " + strings.Join(names, ", ") + "?"
}
