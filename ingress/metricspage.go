package ingress

import (
	"bufio"
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// workerAddr is the label that says which engine a sample is of. What engines call so
// themselves is shown as exported, as Prometheus does it.
const (
	workerAddr = "worker_addr"
	exported   = "exported_"
)

// maxLabels bounds the labels that the samples of one name have together: a sample that
// has more of them is left out, or padding would grow with the square of an answer.
const maxLabels = 64

// metricsPage is the metrics of several engines in the text format of Prometheus, with
// the families of one name together. It believes nothing that engines send: a line that
// is no sample is left out. What it keeps refers to the pages that were added.
type metricsPage struct{ families map[string]*metricFamily }

// metricFamily is the samples under one HELP and TYPE.
type metricFamily struct {
	help, kind []byte // the rest of the lines, nil for none
	declared   bool
	samples    map[string]*samples // by their names
}

// samples are those of one name. All are written with the same labels.
type samples struct {
	labels []string // in the order of their coming
	all    []sample
}

type sample struct {
	worker string
	labels []metricLabel
	rest   []byte // value, and time if there is one
}

type metricLabel struct {
	name  string
	value []byte // as written, between the quotes
}

// add takes the page of an engine in.
func (p *metricsPage) add(worker string, page []byte) {
	for line := range bytes.Lines(page) {
		line = bytes.TrimSpace(line)
		if comment, ok := bytes.CutPrefix(line, []byte("# ")); ok {
			p.declare(comment)
			continue
		}
		name, s, ok := parseSample(line)
		if !ok {
			continue
		}
		f := p.family(p.nameOf(name))
		of := f.samples[name]
		if of == nil {
			of = &samples{}
			f.samples[strings.Clone(name)] = of
		}
		if of.meet(s.labels) {
			s.worker = worker
			of.all = append(of.all, s)
		}
	}
}

// declare takes a comment in. The first that is said of a family holds.
func (p *metricsPage) declare(comment []byte) {
	what, rest, _ := bytes.Cut(comment, []byte(" "))
	name, said, _ := bytes.Cut(bytes.TrimLeft(rest, " \t"), []byte(" "))
	if !validMetric(name) || !legible(said) {
		return
	}
	said = bytes.TrimSpace(said)
	switch string(what) {
	case "HELP":
		f := p.family(string(name))
		if f.declared = true; f.help == nil {
			f.help = said
		}
	case "TYPE":
		switch string(said) {
		case "counter", "gauge", "histogram", "summary", "untyped":
		default:
			return
		}
		f := p.family(string(name))
		if f.declared = true; f.kind == nil {
			f.kind = said
		}
	}
}

func (p *metricsPage) family(name string) *metricFamily {
	f := p.families[name]
	if f == nil {
		f = &metricFamily{samples: map[string]*samples{}}
		if p.families == nil {
			p.families = map[string]*metricFamily{}
		}
		p.families[name] = f
	}
	return f
}

// nameOf is the family that samples of a name are of.
func (p *metricsPage) nameOf(name string) string {
	if f := p.families[name]; f != nil && f.declared {
		return name
	}
	for _, suffix := range [...]string{"_bucket", "_sum", "_count", "_total", "_created"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			if f := p.families[base]; f != nil && f.declared {
				return base
			}
		}
	}
	return name
}

// meet learns the labels of a sample. It says whether the sample is taken.
func (s *samples) meet(labels []metricLabel) bool {
	known := len(s.labels)
	for _, l := range labels {
		if !slices.Contains(s.labels, l.name) {
			s.labels = append(s.labels, l.name)
		}
	}
	if len(s.labels) > maxLabels {
		s.labels = s.labels[:known]
		return false
	}
	return true
}

// write writes the page, the families by their names.
func (p *metricsPage) write(w *bufio.Writer) {
	for _, name := range slices.Sorted(maps.Keys(p.families)) {
		f := p.families[name]
		if len(f.samples) == 0 {
			continue
		}
		if f.help != nil {
			writeAll(w, "# HELP ", name, " ", string(f.help), "\n")
		}
		if f.kind != nil {
			writeAll(w, "# TYPE ", name, " ", string(f.kind), "\n")
		}
		for _, of := range slices.Sorted(maps.Keys(f.samples)) {
			f.samples[of].write(w, of)
		}
	}
}

func (s *samples) write(w *bufio.Writer, name string) {
	for i := range s.all {
		one := &s.all[i]
		writeAll(w, name, "{", workerAddr, "=", strconv.Quote(one.worker))
		for _, label := range s.labels {
			writeAll(w, ",", label, `="`)
			for _, l := range one.labels {
				if l.name == label {
					_, _ = w.Write(l.value) // the error comes with Flush
				}
			}
			writeAll(w, `"`)
		}
		writeAll(w, "} ", string(one.rest), "\n")
	}
}

func writeAll(w *bufio.Writer, parts ...string) {
	for _, s := range parts {
		_, _ = w.WriteString(s) // the error comes with Flush
	}
}

// parseSample reads a line of a page; ok is false for one that is no sample.
func parseSample(line []byte) (name string, s sample, ok bool) {
	end := bytes.IndexAny(line, "{ \t")
	if end <= 0 || !validMetric(line[:end]) {
		return "", s, false
	}
	name, rest := string(line[:end]), line[end:]
	if rest[0] == '{' {
		if s.labels, rest, ok = parseLabels(rest[1:]); !ok {
			return "", s, false
		}
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 || len(fields) > 2 {
		return "", s, false
	}
	if !validNumber(string(fields[0])) {
		return "", s, false
	}
	if len(fields) == 2 {
		if _, err := strconv.ParseInt(string(fields[1]), 10, 64); err != nil {
			return "", s, false
		}
	}
	s.rest = bytes.TrimSpace(rest)
	return name, s, true
}

// validNumber is what readers of a page take for a value.
func validNumber(s string) bool {
	if strings.ContainsAny(s, "_xX") { // of Go's numbers alone
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// parseLabels reads labels up to their end and returns what follows.
func parseLabels(b []byte) (labels []metricLabel, rest []byte, ok bool) {
	for {
		b = bytes.TrimLeft(b, " \t")
		if len(b) == 0 {
			return nil, nil, false
		}
		if b[0] == '}' {
			return labels, b[1:], true
		}
		eq := bytes.IndexByte(b, '=')
		if eq < 0 {
			return nil, nil, false
		}
		name := string(bytes.TrimSpace(b[:eq]))
		b = bytes.TrimLeft(b[eq+1:], " \t")
		if !validLabel(name) || len(b) == 0 || b[0] != '"' {
			return nil, nil, false
		}
		end := closingQuote(b[1:])
		if end < 0 || len(labels) == maxLabels || !legible(b[1:1+end]) {
			return nil, nil, false
		}
		if name == workerAddr {
			name = exported + name
		}
		for _, l := range labels {
			if l.name == name {
				return nil, nil, false
			}
		}
		labels = append(labels, metricLabel{name, b[1 : 1+end]})
		b = bytes.TrimLeft(b[1+end+1:], " \t")
		if len(b) > 0 && b[0] == ',' {
			b = b[1:]
		} else if len(b) == 0 || b[0] != '}' {
			return nil, nil, false
		}
	}
}

// closingQuote is where a quoted value ends, below 0 if it does not. Only what the
// format has may be escaped.
func closingQuote(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			if i++; i == len(b) || b[i] != '\\' && b[i] != '"' && b[i] != 'n' {
				return -1
			}
		}
	}
	return -1
}

func validMetric(b []byte) bool { return validName(b, true) }

func validLabel(s string) bool { return validName([]byte(s), false) }

func validName(b []byte, colons bool) bool {
	for i, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c == ':' && colons, '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return len(b) > 0
}

// legible says whether text is UTF-8 without control characters.
func legible(b []byte) bool {
	for _, r := range string(b) {
		if r < ' ' && r != '\t' || r == 0x7f || r == '\uFFFD' {
			return false
		}
	}
	return true
}
