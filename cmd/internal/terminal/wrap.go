package terminal

import (
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Width is how many characters a line of f has, 0 where f is no terminal.
func Width(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Wrap breaks the lines of a help text that are longer than width between words, and goes
// on beneath where their last column begins. Width 0 leaves them.
func Wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		out.WriteString(wrapLine(line, width))
		if ended {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func wrapLine(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	const step = 4 // further in than the line's beginning, where there is no room beneath the column
	begin := len(line) - len(strings.TrimLeft(line, " "))
	column := begin
	if i := strings.LastIndex(line, "  "); i > begin {
		if column = i + 2; column > width*2/3 {
			column = begin + step
		}
	}
	var out strings.Builder
	used := 0
	for i, word := range strings.SplitAfter(line[begin:], " ") {
		n := utf8.RuneCountInString(strings.TrimSuffix(word, " "))
		switch {
		case i == 0:
			out.WriteString(line[:begin])
			used = begin
		case used+n > width && n > 0:
			kept := strings.TrimRight(out.String(), " ")
			out.Reset()
			out.WriteString(kept + "\n" + strings.Repeat(" ", column))
			used = column
		}
		out.WriteString(word)
		used += utf8.RuneCountInString(word)
	}
	return strings.TrimRight(out.String(), " ")
}
