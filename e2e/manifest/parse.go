package manifest

import (
	"fmt"
	"strconv"
	"strings"
)

// Node is a mapping (map[string]Node), a sequence ([]Node) or a string.
type Node any

// line is one that is not empty, without its indentation and comment.
type line struct {
	number, indent int
	text           string
}

// parser walks over the lines of one document.
type parser struct{ lines []line }

// Parse reads the documents of a file. Errors name the line.
func Parse(text string) (documents []Node, err error) {
	var p parser
	flush := func() error {
		if len(p.lines) == 0 {
			return nil
		}
		n, err := p.block(p.lines[0].indent)
		if err == nil && len(p.lines) > 0 {
			err = p.lines[0].wrong("is indented less than what it belongs to")
		}
		documents = append(documents, n)
		return err
	}
	for i, raw := range strings.Split(text, "\n") {
		if raw == "---" {
			if err := flush(); err != nil {
				return nil, err
			}
			continue
		}
		l := line{number: i + 1, text: strings.TrimLeft(raw, " ")}
		l.indent = len(raw) - len(l.text)
		if l.text, err = l.uncommented(); err != nil {
			return nil, err
		}
		if l.text != "" {
			p.lines = append(p.lines, l)
		}
	}
	return documents, flush()
}

func (l line) wrong(format string, args ...any) error {
	return fmt.Errorf("line %d, %q, %s", l.number, l.text, fmt.Sprintf(format, args...))
}

// uncommented is the text without a comment. A line without one holds no "#".
func (l line) uncommented() (string, error) {
	text := strings.TrimRight(l.text, " \r")
	if strings.HasPrefix(text, "#") {
		return "", nil
	}
	if i := strings.Index(text, " #"); i >= 0 {
		if strings.ContainsAny(text[:i], `"'`) {
			return "", l.wrong("has a quote and a #: put the comment on a line of its own")
		}
		text = strings.TrimRight(text[:i], " ")
	}
	if strings.ContainsRune(text, '\t') {
		return "", l.wrong("has a tab")
	}
	return text, nil
}

// block reads lines of that indentation, and what is deeper, as one node.
func (p *parser) block(indent int) (Node, error) {
	if strings.HasPrefix(p.lines[0].text, "- ") {
		return p.sequence(indent)
	}
	return p.mapping(indent)
}

// here says whether the next line belongs to a block of that indentation.
func (p *parser) here(indent int) (bool, error) {
	if len(p.lines) == 0 || p.lines[0].indent < indent {
		return false, nil
	}
	if p.lines[0].indent > indent {
		return false, p.lines[0].wrong("is indented more than its neighbours")
	}
	return true, nil
}

func (p *parser) sequence(indent int) (Node, error) {
	all := []Node{}
	for {
		if ok, err := p.here(indent); !ok {
			return all, err
		}
		l := p.lines[0]
		text, ok := strings.CutPrefix(l.text, "- ")
		if !ok {
			return nil, l.wrong("is no item of the sequence above it")
		}
		if _, _, isMapping := cut(text); !isMapping {
			p.lines = p.lines[1:]
			v, err := scalar(l, text)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
			continue
		}
		p.lines[0].indent, p.lines[0].text = indent+len("- "), text
		v, err := p.mapping(indent + len("- "))
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
}

func (p *parser) mapping(indent int) (Node, error) {
	all := map[string]Node{}
	for {
		if ok, err := p.here(indent); !ok {
			return all, err
		}
		l := p.lines[0]
		key, value, ok := cut(l.text)
		if _, twice := all[key]; !ok || twice {
			return nil, l.wrong("is no key that is new here, with its value")
		}
		p.lines = p.lines[1:]
		var err error
		switch {
		case value != "":
			all[key], err = scalar(l, value)
		case len(p.lines) == 0 || p.lines[0].indent <= indent:
			err = l.wrong("has no value")
		default:
			all[key], err = p.block(p.lines[0].indent)
		}
		if err != nil {
			return nil, err
		}
	}
}

// cut takes a line of a mapping apart.
func cut(text string) (key, value string, ok bool) {
	key, value, ok = strings.Cut(text, ":")
	if !ok || key == "" || strings.ContainsAny(key, ` "'[]{}&*!|>%@`) || strings.HasPrefix(key, "-") || value != "" && value[0] != ' ' {
		return "", "", false
	}
	return key, strings.TrimLeft(value, " "), true
}

// scalar is a value on one line, as a string.
func scalar(l line, text string) (string, error) {
	if text[0] == '"' {
		v, err := strconv.Unquote(text)
		if err != nil {
			return "", l.wrong("has a string that does not end, or more behind it")
		}
		return v, nil
	}
	if strings.ContainsRune("'[]{}&*!|>%@`#,?", rune(text[0])) || text == "-" || strings.HasPrefix(text, "- ") || strings.Contains(text, ": ") || strings.HasSuffix(text, ":") {
		return "", l.wrong("has a value that is not in double quotes, and needs them")
	}
	return text, nil
}
