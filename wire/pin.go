package wire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"smg/wire/wirepb"
	"smg/worker"
)

const pinName = "pin"

// Pins is where the keys of a leg go: those values of the bucket smg_v1_<cluster>_pins
// whose keys are <leg>.<model>.<key>, model and key being the hashes of a
// [worker.PinKey] in hex. The replica that answers for a key writes its pin.
func (c Cluster) Pins(leg worker.Leg) Table[worker.PinKey, worker.Pin] {
	prefix := leg.String() + "."
	return Table[worker.PinKey, worker.Pin]{
		Kind:      "pins",
		Bucket:    c.bucket("pins"),
		Keys:      prefix + ">",
		Key:       func(p *worker.Pin) worker.PinKey { return p.Key },
		FormatKey: func(k worker.PinKey) string { return prefix + formatPinKey(k) },
		ParseKey: func(s string) (worker.PinKey, error) {
			rest, found := strings.CutPrefix(s, prefix)
			if !found {
				return worker.PinKey{}, malformed("key of a pin", fmt.Errorf("%q is not of leg %s", s, leg))
			}
			return parsePinKey(rest)
		},
		Append: AppendPin,
		Decode: DecodePin,
	}
}

func formatPinKey(k worker.PinKey) string { return fmt.Sprintf("%016x.%x", k.Model, k.Sum) }

func parsePinKey(s string) (worker.PinKey, error) {
	var k worker.PinKey
	model, sum, _ := strings.Cut(s, ".")
	var raw [8]byte
	if len(model) == 2*len(raw) && len(sum) == 2*len(k.Sum) {
		_, errModel := hex.Decode(raw[:], []byte(model))
		_, errSum := hex.Decode(k.Sum[:], []byte(sum))
		k.Model = binary.BigEndian.Uint64(raw[:])
		if errModel == nil && errSum == nil && !k.None() && formatPinKey(k) == s {
			return k, nil
		}
	}
	return worker.PinKey{}, malformed("key of a pin", fmt.Errorf("%q is not two hashes", s))
}

// AppendPin encodes what is kept under a pin's key, at the end of buf.
func AppendPin(buf []byte, p *worker.Pin) ([]byte, error) {
	if err := checkPin(p); err != nil {
		return buf, unsendable(pinName, err)
	}
	m := &wirepb.Pin{Replica: uint64(p.Replica)}
	for _, id := range p.Workers {
		if !isZero(id) {
			m.Workers = append(m.Workers, id[:]...)
		}
	}
	return marshal(buf, pinName, m)
}

// DecodePin reads the pin of a key and keeps nothing of data.
func DecodePin(k worker.PinKey, data []byte) (*worker.Pin, error) {
	var m wirepb.Pin
	if err := unmarshal(data, pinName, &m); err != nil {
		return nil, err
	}
	p := &worker.Pin{Key: k, Replica: worker.ReplicaID(m.Replica)}
	const size = len(worker.ID{})
	if n := len(m.Workers); n != size && n != 2*size {
		return nil, malformed(pinName, fmt.Errorf("ids of %d bytes", n))
	}
	for i := 0; i*size < len(m.Workers); i++ {
		p.Workers[i] = worker.ID(m.Workers[i*size : (i+1)*size])
		if isZero(p.Workers[i]) {
			return nil, malformed(pinName, errors.New("a worker without an id"))
		}
	}
	if err := checkPin(p); err != nil {
		return nil, malformed(pinName, err)
	}
	return p, nil
}

// checkPin is what holds for every pin, sent or received.
func checkPin(p *worker.Pin) error {
	switch {
	case p.Key.None():
		return errors.New("it is of no key")
	case isZero(p.Workers[0]):
		return errors.New("it names no worker")
	case p.Workers[0] == p.Workers[1]:
		return errors.New("it names a worker twice")
	case p.Replica == 0:
		return errors.New("it is from no replica")
	}
	return nil
}
