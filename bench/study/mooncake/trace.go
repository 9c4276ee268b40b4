package mooncake

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// BlockSize is the tokens of a block.
const BlockSize = 512

// Line is one request of a trace.
type Line struct {
	Timestamp int64    `json:"timestamp"`     // milliseconds since the begin
	Input     int      `json:"input_length"`  // tokens
	Output    int      `json:"output_length"` // tokens
	Blocks    []uint64 `json:"hash_ids"`      // of all blocks of the prompt, a begun one included
}

// At is when the request arrives.
func (l *Line) At() time.Duration { return time.Duration(l.Timestamp) * time.Millisecond }

// Full are the blocks that the prompt fills.
func (l *Line) Full() []uint64 { return l.Blocks[:l.Input/BlockSize] }

// maxLine is more than a prompt of four million tokens takes.
const maxLine = 1 << 20

// Read reads a trace whole. An error names the line at fault.
func Read(r io.Reader) ([]Line, error) {
	var lines []Line
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxLine)
	for n := 1; scan.Scan(); n++ {
		if len(scan.Bytes()) == 0 {
			continue
		}
		var l Line
		err := json.Unmarshal(scan.Bytes(), &l)
		if err == nil {
			err = l.check(lines)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", n, err)
		}
		lines = append(lines, l)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	if len(lines) == 0 {
		return nil, errors.New("the trace is empty")
	}
	return lines, nil
}

// check says what is wrong with a line that comes after those before it.
func (l *Line) check(before []Line) error {
	switch blocks := (l.Input + BlockSize - 1) / BlockSize; {
	case l.Input < 1 || l.Output < 1:
		return fmt.Errorf("a request of %d tokens and an answer of %d: there must be some of both", l.Input, l.Output)
	case len(l.Blocks) != blocks:
		return fmt.Errorf("%d blocks for %d tokens: there must be %d, of %d tokens each", len(l.Blocks), l.Input, blocks, BlockSize)
	case l.Timestamp < 0 || len(before) > 0 && l.Timestamp < before[len(before)-1].Timestamp:
		return fmt.Errorf("timestamp %d goes back", l.Timestamp)
	}
	return nil
}
