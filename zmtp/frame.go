package zmtp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The bits of a frame's first byte.
const (
	more    = 1 << iota // of the same message
	long                // the length has eight bytes
	command             // and no message
	unknown = ^byte(more | long | command)
)

// frame is one frame as it was read.
type frame struct {
	flags byte
	body  []byte
}

func (f *frame) more() bool    { return f.flags&more != 0 }
func (f *frame) command() bool { return f.flags&command != 0 }

// readFrame reads a frame: one of at most limit bytes, or a command.
func readFrame(in *bufio.Reader, limit int) (frame, error) {
	flags, err := in.ReadByte()
	if err != nil {
		return frame{}, err
	}
	if flags&command != 0 {
		limit = maxCommand
	}
	var header [8]byte
	size := header[7:]
	if flags&long != 0 {
		size = header[:]
	}
	if _, err := io.ReadFull(in, size); err != nil {
		return frame{}, broken(err)
	}
	n := binary.BigEndian.Uint64(header[:])
	switch {
	case flags&unknown != 0 || flags&command != 0 && flags&more != 0:
		return frame{}, fmt.Errorf("%w: a frame with flags %#02x", ErrProtocol, flags)
	case n > uint64(max(limit, 0)):
		return frame{}, fmt.Errorf("%w: %d bytes where %d are allowed", ErrTooLong, n, limit)
	}
	body, err := readBody(in, int(n))
	return frame{flags, body}, broken(err)
}

// trusted is how much memory a peer gets for saying that it will send that much.
const trusted = 1 << 20

func readBody(in io.Reader, n int) ([]byte, error) {
	if n <= trusted {
		body := make([]byte, n)
		_, err := io.ReadFull(in, body)
		return body, err
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, in, int64(n)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// broken is err of a read in the middle of something.
func broken(err error) error {
	if err == io.EOF { //nolint:errorlint // as io.ReadFull compares it
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends a frame with these flags, of which long is decided here.
func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = append(b, flags|long)
		b = binary.BigEndian.AppendUint64(b, uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}

// appendMessage appends the frames of a message.
func appendMessage(b []byte, frames [][]byte) []byte {
	for i, body := range frames {
		flags := byte(0)
		if i < len(frames)-1 {
			flags = more
		}
		b = appendFrame(b, flags, body)
	}
	return b
}
