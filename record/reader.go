package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Errors of recordings.
var (
	// ErrCut is a recording that ends in the middle. What was read before is good.
	ErrCut = errors.New("the recording is cut off")
	// ErrVersion is a recording of another version of the format.
	ErrVersion = errors.New("recorded by another version")
	// ErrNotOne is a file that is no recording.
	ErrNotOne = errors.New("not a recording of smg")
)

// Reader reads a recording line by line.
type Reader struct {
	header  Header
	in      *bufio.Reader
	line    []byte // scratch
	number  int    // of the last line
	workers map[int]bool
	closed  bool
}

// maxLine is more than a line with a whole prompt takes.
const maxLine = 16 << 20

// NewReader reads the header of a recording, compressed or not. The error is ErrCut,
// ErrVersion, ErrNotOne or that of r, possibly wrapped.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, err := in.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zip, err := gzip.NewReader(in)
		if err != nil {
			return nil, cut(err)
		}
		in = bufio.NewReaderSize(zip, 64<<10)
	}
	d := &Reader{in: in, workers: map[int]bool{}}
	line, err := d.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it is empty", ErrNotOne)
	case errors.Is(err, ErrCut) && !bytes.HasPrefix(d.line, []byte(`{"smg_recording"`)):
		return nil, ErrNotOne
	case err != nil:
		return nil, err
	}
	if json.Unmarshal(line, &d.header) != nil || d.header.Version == 0 {
		return nil, ErrNotOne
	}
	if v := d.header.Version; v != Version {
		return nil, fmt.Errorf("%w: it has version %d of the format, this program reads version %d", ErrVersion, v, Version)
	}
	return d, nil
}

// Header is the first line.
func (d *Reader) Header() Header { return d.header }

// Next is the next line, or an error: io.EOF behind the last one, ErrCut where a last
// one is missing, or what is wrong with the line.
func (d *Reader) Next() (Line, error) {
	data, err := d.next()
	switch {
	case err == nil && d.closed:
		return Line{}, fmt.Errorf("line %d: it comes after the last one", d.number)
	case errors.Is(err, io.EOF) && !d.closed:
		return Line{}, ErrCut
	case err != nil:
		return Line{}, err
	}
	var l Line
	if err = json.Unmarshal(data, &l); err == nil {
		err = d.check(&l)
	}
	if err != nil {
		return Line{}, fmt.Errorf("line %d: %w", d.number, err)
	}
	d.closed = l.Close != nil
	return l, nil
}

// next is the next line, valid until the next one is read.
func (d *Reader) next() ([]byte, error) {
	d.line = d.line[:0]
	for {
		part, err := d.in.ReadSlice('\n')
		if d.line = append(d.line, part...); len(d.line) > maxLine {
			return nil, fmt.Errorf("line %d: longer than %d bytes", d.number+1, maxLine)
		}
		switch {
		case err == nil:
			d.number++
			return d.line[:len(d.line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(d.line) > 0:
			return nil, ErrCut
		default:
			return nil, cut(err)
		}
	}
}

// cut tells an end in the middle from other errors.
func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

// check says what is wrong with a line.
func (d *Reader) check(l *Line) error {
	var errs []error
	known := func(worker int) {
		if !d.workers[worker] {
			errs = append(errs, fmt.Errorf("nobody was said to be worker %d", worker))
		}
	}
	if w := l.Worker; w != nil {
		if w.Number < 1 {
			errs = append(errs, fmt.Errorf("a worker with the number %d", w.Number))
		}
		d.workers[w.Number] = true
	}
	if s := l.Select; s != nil {
		if s.Worker != 0 {
			known(s.Worker)
		}
		errs = append(errs, s.check())
	}
	if l.Begin != nil {
		known(l.Begin.Worker)
	}
	if l.Load != nil {
		known(l.Load.Number)
		errs = append(errs, l.Load.check())
	}
	return errors.Join(errs...)
}
