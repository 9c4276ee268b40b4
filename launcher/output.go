package launcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"
)

const (
	// flushAfter is how long an unfinished line is held back.
	flushAfter = time.Second
	// maxLine splits lines that never end.
	maxLine = 64 << 10
)

// splitter cuts a stream into lines. What a carriage return has overwritten is
// left out, as a terminal would show it: progress bars are one line, not hundreds.
type splitter struct{ partial []byte }

// feed adds data and calls emit for each line that it completes.
func (s *splitter) feed(data []byte, emit func(line string)) {
	for len(data) > 0 {
		i := bytes.IndexByte(data, '\n')
		end := i >= 0
		if !end {
			i = len(data)
		}
		if room := maxLine - len(s.partial); i > room {
			i, end = room, false
		}
		s.partial = append(s.partial, data[:i]...)
		data = data[i:]
		switch {
		case end:
			data = data[1:]
			s.flush(emit, true)
		case len(s.partial) == maxLine && len(data) > 0:
			s.flush(emit, false)
		}
	}
}

// flush emits what is held back. An empty remainder is a line only where a newline
// ended it.
func (s *splitter) flush(emit func(line string), newline bool) {
	if len(s.partial) > 0 || newline {
		emit(visible(s.partial))
	}
	s.partial = s.partial[:0]
}

// visible is the part of a line that the last carriage return left standing.
func visible(line []byte) string {
	line = bytes.TrimRight(line, "\r")
	if i := bytes.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	return strings.ToValidUTF8(string(line), "\ufffd")
}

// pump reads an engine's output to its end and calls emit for each line, and for an
// unfinished one after flushAfter of silence about its end.
func pump(r *os.File, emit func(line string)) error {
	var s splitter
	var due time.Time // when the unfinished line is flushed
	buf := make([]byte, 32<<10)
	for {
		if len(s.partial) == 0 {
			due = time.Time{}
		} else if due.IsZero() {
			due = time.Now().Add(flushAfter)
		}
		if err := r.SetReadDeadline(due); err != nil {
			return fmt.Errorf("timing engine output: %w", err)
		}
		n, err := r.Read(buf)
		s.feed(buf[:n], emit)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.flush(emit, false)
		case err != nil:
			s.flush(emit, false)
			if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
				return nil
			}
			return fmt.Errorf("reading engine output: %w", err)
		}
	}
}

// hiding returns what takes the secrets of an engine's command line out of what it
// writes.
func hiding(argv []string) func(line string) string {
	if m := maskOf(argv); m != nil {
		return m.Replace
	}
	return func(line string) string { return line }
}

// lineWriter returns the function that passes one line of p on.
func (c Config) lineWriter(p *Process, console *Console, file *os.File) func(line string) {
	switch {
	case c.Log == LogFile:
		return func(line string) { _, _ = io.WriteString(file, line+"\n") } // a full disk must not stop an engine
	case c.Log == LogRaw:
		return func(line string) { _, _ = io.WriteString(console, line+"\n") }
	case c.JSON:
		source := p.place.stem()
		return func(line string) { _, _ = console.Write(jsonLine(source, line)) }
	}
	prefix := "[" + p.name + "] "
	if c.Color {
		prefix = colorOf(p.index) + prefix + colorReset
	}
	return func(line string) { _, _ = io.WriteString(console, prefix+line+"\n") }
}

// jsonLine has the keys of the gateway's own JSON lines, and where the line came from.
func jsonLine(source, line string) []byte {
	out, err := json.Marshal(struct {
		Timestamp time.Time `json:"timestamp"`
		Level     string    `json:"level"`
		Source    string    `json:"source"`
		Message   string    `json:"message"`
	}{time.Now(), slog.LevelInfo.String(), source, line})
	if err != nil {
		return nil // strings always encode
	}
	return append(out, '\n')
}

// colorOf gives neighbours different colours that are readable on light and on dark
// grounds.
func colorOf(index int) string {
	codes := [...]int{36, 33, 35, 32, 34, 31}
	return fmt.Sprintf("\x1b[%dm", codes[index%len(codes)])
}
