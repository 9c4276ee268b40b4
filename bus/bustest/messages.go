package bustest

import (
	"encoding/binary"
	"slices"
	"testing"
)

// Pack appends a message to the input of a fuzz target that hears several: what it is, how
// long it is, and itself as appendTo encodes it.
func Pack[T any](tb testing.TB, input []byte, kind byte, appendTo func([]byte, *T) ([]byte, error), m *T) []byte {
	tb.Helper()
	data, err := appendTo(nil, m)
	if err != nil {
		tb.Fatal(err)
	}
	input = binary.BigEndian.AppendUint16(append(slices.Clip(input), kind), uint16(len(data)))
	return append(input, data...)
}

// Unpack takes the first message off such an input, false if there is none.
func Unpack(input []byte) (kind byte, data, rest []byte, ok bool) {
	if len(input) < 3 {
		return 0, nil, nil, false
	}
	kind, input = input[0], input[1:]
	n := min(int(binary.BigEndian.Uint16(input)), len(input)-2)
	return kind, input[2 : 2+n], input[2+n:], true
}
