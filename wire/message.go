package wire

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"smg/worker"
)

// ErrMalformed is wrapped by every error of a decoder: the message is to be
// dropped. No input makes a decoder panic.
var ErrMalformed = errors.New("malformed message")

// Limits of messages. Encoders keep them, so a decoder that sees more was sent
// something that is not ours.
const (
	MaxMessage = 1 << 20 // bytes of a message: NATS takes no larger ones by default
	MaxString  = 4096    // bytes of a string
	MaxName    = 256     // bytes of the name of an ingress, a build, a policy or a runtime
	MaxEntries = 1024    // entries of a lease batch; ours have up to worker.BatchEntries
	MaxRenewed = 1 << 15 // leases of one beat's quarter: 131,072 open ones for each ingress and leg
	MaxList    = 4096    // models, aliases, labels, policies or versions of one message
)

// malformed is the error of a decoder of what, for a fault of the message.
func malformed(what string, fault error) error {
	return fmt.Errorf("%s: %w: %w", what, ErrMalformed, fault)
}

// unsendable is the error of an encoder.
func unsendable(what string, fault error) error {
	return fmt.Errorf("encoding a %s: %w", what, fault)
}

// marshal is deterministic, so that equal values have equal encodings: goldens
// stay put and a watcher can tell a repeated value from a new one.
func marshal(buf []byte, what string, m proto.Message) ([]byte, error) {
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(buf, m)
	if err != nil {
		return buf, unsendable(what, err)
	}
	if n := len(out) - len(buf); n > MaxMessage {
		return buf, unsendable(what, fmt.Errorf("its %d bytes are more than %d", n, MaxMessage))
	}
	return out, nil
}

func unmarshal(data []byte, what string, m proto.Message) error {
	if len(data) > MaxMessage {
		return malformed(what, fmt.Errorf("its %d bytes are more than %d", len(data), MaxMessage))
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		return malformed(what, err)
	}
	return nil
}

// On the wire an enumeration has 0 for "absent" and its first value at 1; ours
// start at 0. Both have the same order.

func toEnum[E ~int32, V ~uint8](v V) E { return E(v) + 1 }

// fromEnum is false for an absent value, which one that is newer than us is too.
func fromEnum[V ~uint8, E ~int32](e E, last V) (V, bool) {
	if e < 1 || e > E(last)+1 {
		return 0, false
	}
	return V(e - 1), true
}

func isZero(id worker.ID) bool { return id == worker.ID{} }

func decodeID(b []byte) (worker.ID, error) {
	if len(b) != len(worker.ID{}) {
		return worker.ID{}, fmt.Errorf("a worker id has %d bytes", len(b))
	}
	return worker.ID(b), nil
}

func checkString(name, s string, longest int) error {
	if len(s) > longest {
		return fmt.Errorf("%s has %d bytes, more than %d", name, len(s), longest)
	}
	return nil
}

func checkStrings(name string, list []string, longest int) error {
	if err := checkLen(name, len(list), MaxList); err != nil {
		return err
	}
	for _, s := range list {
		if s == "" {
			return fmt.Errorf("one of the %s is empty", name)
		}
		if err := checkString("one of the "+name, s, longest); err != nil {
			return err
		}
	}
	return nil
}

func checkLen(name string, n, most int) error {
	if n > most {
		return fmt.Errorf("%d %s, more than %d", n, name, most)
	}
	return nil
}

func checkFinite(name string, f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%s is %v", name, f)
	}
	return nil
}
