package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"smg/wire/wirepb"
	"smg/worker"
)

const selectName = "select"

// tokenBytes is the size of a token id in a message.
const tokenBytes = 4

// clipMark ends a client's text that was cut. With it the text is neither the name
// of a model, of which none is that long, nor the number of a target.
const (
	clipMark = "…"
	maxClip  = MaxString + len(clipMark)
)

// selectEncoder is the memory of one encoding, used again and again.
type selectEncoder struct {
	msg  wirepb.Select
	keys [5]wirepb.Key
	fit  wirepb.Class
}

var selectEncoders = sync.Pool{New: func() any { return new(selectEncoder) }}

// AppendSelect encodes s, all but Now, at the end of buf. A model or a target of
// more than [MaxString] bytes, which names nothing, is cut and stays without a
// meaning. It is safe for concurrent use.
func AppendSelect(buf []byte, s *Select) ([]byte, error) {
	if err := checkSelect(s); err != nil {
		return buf, unsendable(selectName, err)
	}
	e := selectEncoders.Get().(*selectEncoder)
	defer selectEncoders.Put(e)
	defer func() { e.msg.Text = "" }() // a kept encoder keeps no prompt
	return marshal(buf, selectName, e.fill(s))
}

// fill sets every field of the message, since each may have been used before.
func (e *selectEncoder) fill(s *Select) *wirepb.Select {
	m := &e.msg
	m.Incarnation = s.Lease.Incarnation
	m.Plan = s.Lease.Plan
	m.Item = uint32(s.Lease.Item)
	m.Leg = toEnum[wirepb.Leg](s.Lease.Leg)
	m.Model = appendClipped(m.Model[:0], s.Model)
	m.Target = appendClipped(m.Target[:0], s.Target)
	for i, to := range keysOf(m) {
		*to = fillKey(&e.keys[i], s.Keys, i)
	}
	m.Text = s.Text
	m.Chars = uint64(s.Chars)
	m.TokenIds = m.TokenIds[:0]
	for _, id := range s.TokenIDs {
		m.TokenIds = binary.LittleEndian.AppendUint32(m.TokenIds, id)
	}
	m.Tokens = uint64(s.Tokens)
	m.Namespace = s.Namespace
	m.Compat, m.Groups = nil, nil
	if s.Fit != nil {
		m.Compat, m.Groups = &e.fit, s.Fit.Groups
		fillClass(m.Compat, s.Fit.Class)
	}
	m.WaitUs = uint64(s.Wait.Microseconds())
	m.Units = uint32(s.Units)
	m.Dry = s.Dry
	m.Priority = int32(s.Priority)
	m.Tenant = appendClipped(m.Tenant[:0], s.Tenant)
	m.Skip = m.Skip[:0]
	for i := range s.Skip {
		m.Skip = append(m.Skip, s.Skip[i][:]...)
	}
	return m
}

// keysOf are the places of a message's keys, in the order of keyAt.
func keysOf(m *wirepb.Select) [5]**wirepb.Key {
	return [...]**wirepb.Key{&m.RidKey, &m.HeaderKey, &m.ConversationKey, &m.PinnedKey, &m.ImplicitKey}
}

// keyAt is the i-th of the keys.
func keyAt(k *worker.Keys, i int) *worker.Key {
	return [...]*worker.Key{&k.RID, &k.Header, &k.Conversation, &k.Pinned, &k.Implicit}[i]
}

// fillKey fills a message with the i-th key, or returns nil if there is none.
func fillKey(m *wirepb.Key, keys worker.Keys, i int) *wirepb.Key {
	k := keyAt(&keys, i)
	if k.None() {
		return nil
	}
	m.Sum = append(m.Sum[:0], k.Sum[:]...)
	m.Short = k.Short
	return m
}

func appendClipped(buf []byte, s string) []byte {
	if len(s) > MaxString {
		return append(append(buf, s[:MaxString]...), clipMark...)
	}
	return append(buf, s...)
}

// DecodeSelect reads a select and keeps nothing of data. Now is zero.
func DecodeSelect(data []byte) (*Select, error) {
	var m wirepb.Select
	if err := unmarshal(data, selectName, &m); err != nil {
		return nil, err
	}
	s, err := decodeSelect(&m)
	if err == nil {
		err = checkSelect(s)
	}
	if err != nil {
		return nil, malformed(selectName, err)
	}
	return s, nil
}

// checkSelect is what holds for every select, sent or received.
func checkSelect(s *Select) error {
	if err := checkLeaseID(s.Lease); err != nil {
		return err
	}
	switch {
	case s.Tokens < 0:
		return fmt.Errorf("%d tokens", s.Tokens)
	case s.Chars < 0:
		return fmt.Errorf("%d characters", s.Chars)
	case len(s.Text) > MaxText:
		return fmt.Errorf("a text of %d bytes, more than %d", len(s.Text), MaxText)
	case len(s.TokenIDs) > MaxTokenIDs:
		return fmt.Errorf("%d token ids, more than %d", len(s.TokenIDs), MaxTokenIDs)
	case int64(len(s.TokenIDs)) > s.Tokens:
		return fmt.Errorf("%d token ids of %d", len(s.TokenIDs), s.Tokens)
	case s.Wait < 0 || s.Wait%time.Microsecond != 0:
		return fmt.Errorf("a wait of %v", s.Wait)
	case s.Units < 0 || s.Units > math.MaxInt32:
		return fmt.Errorf("%d units", s.Units)
	case s.Priority != int(int32(s.Priority)):
		return fmt.Errorf("priority %d", s.Priority)
	}
	if s.Fit != nil {
		if err := checkFit(s.Fit); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(s.Skip, isZero) {
		return errors.New("it skips a worker without an id")
	}
	return checkLen("workers to skip", len(s.Skip), MaxList)
}

func checkLeaseID(id worker.LeaseID) error {
	switch {
	case id.Incarnation == 0:
		return errors.New("the incarnation is 0")
	case id.Plan == 0:
		return errors.New("the plan number is 0")
	case id.Leg > worker.Decode:
		return fmt.Errorf("unknown %s", id.Leg)
	}
	return nil
}

func decodeSelect(m *wirepb.Select) (*Select, error) {
	const size = len(worker.ID{})
	id, err := decodeLeaseID(m.Incarnation, m.Plan, m.Item, m.Leg)
	if err != nil {
		return nil, err
	}
	switch {
	case len(m.Model) > maxClip:
		return nil, fmt.Errorf("the model has %d bytes, more than %d", len(m.Model), maxClip)
	case len(m.Target) > maxClip:
		return nil, fmt.Errorf("the target has %d bytes, more than %d", len(m.Target), maxClip)
	case len(m.Tenant) > maxClip:
		return nil, fmt.Errorf("the tenant has %d bytes, more than %d", len(m.Tenant), maxClip)
	case m.WaitUs > uint64(math.MaxInt64/time.Microsecond):
		return nil, fmt.Errorf("a wait of %d µs", m.WaitUs)
	case m.Tokens > math.MaxInt64:
		return nil, fmt.Errorf("%d tokens", m.Tokens)
	case m.Chars > math.MaxInt64:
		return nil, fmt.Errorf("%d characters", m.Chars)
	case len(m.TokenIds)%tokenBytes != 0:
		return nil, fmt.Errorf("the token ids have %d bytes", len(m.TokenIds))
	case len(m.Skip)%size != 0:
		return nil, fmt.Errorf("the ids of workers to skip have %d bytes", len(m.Skip))
	}
	s := &Select{
		Lease: id, Model: string(m.Model), Target: string(m.Target),
		Text: m.Text, Chars: int64(m.Chars), Tokens: int64(m.Tokens), Namespace: m.Namespace,
		Wait: time.Duration(m.WaitUs) * time.Microsecond, Units: int(m.Units), Dry: m.Dry, Priority: int(m.Priority), Tenant: string(m.Tenant),
	}
	if m.Compat != nil || len(m.Groups) > 0 {
		s.Fit = &worker.Fit{Class: decodeClass(m.Compat), Groups: m.Groups}
	}
	for i, from := range keysOf(m) {
		if *keyAt(&s.Keys, i), err = decodeKey(*from); err != nil {
			return nil, err
		}
	}
	if n := len(m.TokenIds) / tokenBytes; n > 0 {
		s.TokenIDs = make([]uint32, n)
		for i := range s.TokenIDs {
			s.TokenIDs[i] = binary.LittleEndian.Uint32(m.TokenIds[i*tokenBytes:])
		}
	}
	if n := len(m.Skip) / size; n > 0 {
		s.Skip = make([]worker.ID, n)
		for i := range s.Skip {
			s.Skip[i] = worker.ID(m.Skip[i*size:][:size])
		}
	}
	return s, nil
}

func decodeKey(m *wirepb.Key) (worker.Key, error) {
	if m == nil {
		return worker.Key{}, nil
	}
	k := worker.Key{Short: m.Short}
	if len(m.Sum) != len(k.Sum) {
		return worker.Key{}, fmt.Errorf("the hash of the key has %d bytes", len(m.Sum))
	}
	copy(k.Sum[:], m.Sum)
	return k, nil
}

func decodeLeaseID(incarnation, plan uint64, item uint32, leg wirepb.Leg) (worker.LeaseID, error) {
	id := worker.LeaseID{Incarnation: incarnation, Plan: plan, Item: uint16(item)}
	if item > math.MaxUint16 {
		return id, fmt.Errorf("item %d", item)
	}
	l, known := fromEnum(leg, worker.Decode)
	if !known {
		return id, fmt.Errorf("%w %d", errUnknownLeg, leg)
	}
	id.Leg = l
	return id, nil
}

var errUnknownLeg = errors.New("unknown leg")
