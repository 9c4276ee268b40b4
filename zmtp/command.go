package zmtp

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The commands.
const (
	ready     = "READY"
	failed    = "ERROR"
	subscribe = "SUBSCRIBE"
	cancel    = "CANCEL"
	ping      = "PING"
	pong      = "PONG"
)

// maxCommand is the longest command that is taken.
const maxCommand = 4096

// appendCommand appends a command as a frame.
func appendCommand(b []byte, name string, data []byte) []byte {
	body := append([]byte{byte(len(name))}, name...)
	return appendFrame(b, command, append(body, data...))
}

// splitCommand is a command's name and what comes with it.
func splitCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || len(body)-1 < int(body[0]) || body[0] == 0 {
		return "", nil, fmt.Errorf("%w: a command without a name", ErrProtocol)
	}
	n := int(body[0]) + 1
	return string(body[1:n]), body[n:], nil
}

// appendProperty appends one of the properties that a READY has.
func appendProperty(b []byte, name, value string) []byte {
	b = append(b, byte(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// property is the value of a property, whose name is in any case, or "".
func property(data []byte, want string) (value string, err error) {
	for len(data) > 0 {
		n := int(data[0]) + 1
		if len(data) < n+4 {
			return "", fmt.Errorf("%w: a property that is cut off", ErrProtocol)
		}
		name := string(data[1:n])
		size := binary.BigEndian.Uint32(data[n:])
		data = data[n+4:]
		if uint64(size) > uint64(len(data)) {
			return "", fmt.Errorf("%w: a property that is cut off", ErrProtocol)
		}
		if strings.EqualFold(name, want) {
			value = string(data[:size])
		}
		data = data[size:]
	}
	return value, nil
}

// reasonOf is what an ERROR says.
func reasonOf(data []byte) string {
	if len(data) > 0 && len(data)-1 >= int(data[0]) {
		data = data[1 : 1+int(data[0])]
	}
	return string(data)
}
