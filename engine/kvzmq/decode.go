package kvzmq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"smg/engine"
)

// ErrData is a message that is no batch of events.
var ErrData = errors.New("not a batch of KV-cache events")

// The limits of one batch, some hundred times what engines send.
const (
	maxDepth  = 16 // of values in values
	maxEvents = 1 << 17
	maxBlocks = 1 << 20
	maxTokens = 1 << 24
)

// decode reads a batch: [timestamp, events, rank]. Whatever the bytes are, it takes no
// more memory than some ten times their number and the limits above.
func decode(b []byte) ([]engine.KVEvent, error) {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err == nil && n < 2 {
		err = fmt.Errorf("%d fields", n)
	}
	if err == nil {
		b, err = skip(b, maxDepth) // the time
	}
	if err == nil {
		n, b, err = msgp.ReadArrayHeaderBytes(b)
	}
	if err == nil && n > maxEvents {
		err = fmt.Errorf("%d events", n)
	}
	var events []engine.KVEvent
	left := budget{maxBlocks, maxTokens}
	for ; err == nil && n > 0; n-- {
		var f fields
		if b, err = f.read(b); err != nil {
			break
		}
		var e engine.KVEvent
		var told bool
		if e, told, err = f.event(&left); told {
			events = append(events, e)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	return events, nil
}

// budget is what is left of the limits.
type budget struct{ blocks, tokens int }

// fields are the parts of an event, not read yet; nil is not there.
type fields struct {
	tag                            string
	hashes, parent, tokens, size   []byte
	lora, medium, name, keys, salt []byte
	group                          []byte
}

// Fields by position, behind the tag.
func (f *fields) at(i int) *[]byte {
	if f.tag == "BlockRemoved" {
		return one(i, &f.hashes, &f.medium, &f.group)
	}
	return one(i, &f.hashes, &f.parent, &f.tokens, &f.size, &f.lora, &f.medium, &f.name, &f.keys, &f.group)
}

func one(i int, all ...*[]byte) *[]byte {
	if i < len(all) {
		return all[i]
	}
	return nil
}

// Fields by name.
func (f *fields) named(name string) *[]byte {
	switch name {
	case "block_hashes":
		return &f.hashes
	case "parent_block_hash":
		return &f.parent
	case "token_ids":
		return &f.tokens
	case "block_size":
		return &f.size
	case "lora_id":
		return &f.lora
	case "medium":
		return &f.medium
	case "lora_name":
		return &f.name
	case "extra_keys":
		return &f.keys
	case "cache_salt":
		return &f.salt
	case "group_idx":
		return &f.group
	}
	return nil
}

// read takes an event apart: an array that begins with the tag, or a map.
func (f *fields) read(b []byte) ([]byte, error) {
	if msgp.NextType(b) == msgp.MapType {
		n, b, err := msgp.ReadMapHeaderBytes(b)
		for ; err == nil && n > 0; n-- {
			var key []byte
			if key, b, err = msgp.ReadStringZC(b); err != nil {
				break
			}
			if string(key) == "type" {
				b, err = f.readTag(b)
				continue
			}
			b, err = keep(f.named(string(key)), b)
		}
		return b, err
	}
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err == nil && n == 0 {
		err = errors.New("an event without a tag")
	}
	if err == nil {
		b, err = f.readTag(b)
	}
	for i := 0; err == nil && i < int(n)-1; i++ {
		b, err = keep(f.at(i), b)
	}
	return b, err
}

func (f *fields) readTag(b []byte) ([]byte, error) {
	tag, b, err := msgp.ReadStringZC(b)
	f.tag = string(tag[:min(len(tag), 64)])
	return b, err
}

// keep notes where a value lies, unless it is nil, and goes on behind it.
func keep(to *[]byte, b []byte) ([]byte, error) {
	rest, err := skip(b, maxDepth)
	if err == nil && to != nil && !msgp.IsNil(b) {
		*to = b[:len(b)-len(rest)]
	}
	return rest, err
}

// skip goes on behind a value.
func skip(b []byte, depth int) ([]byte, error) {
	if depth == 0 {
		return b, errors.New("values in values too deep")
	}
	var n uint32
	var err error
	switch msgp.NextType(b) {
	case msgp.ArrayType:
		n, b, err = msgp.ReadArrayHeaderBytes(b)
	case msgp.MapType:
		if n, b, err = msgp.ReadMapHeaderBytes(b); err == nil && n > math.MaxUint32/2 {
			err = errors.New("an endless map")
		}
		n *= 2
	default:
		return msgp.Skip(b)
	}
	for ; err == nil && n > 0; n-- {
		b, err = skip(b, depth-1)
	}
	return b, err
}

// event is what the fields say, unless that is of no use here: other kinds of events,
// blocks that lie elsewhere than in the engine's own fast memory, blocks that only some
// requests can share, or of which the tokens are not told.
func (f *fields) event(left *budget) (e engine.KVEvent, told bool, err error) {
	switch f.tag {
	case "AllBlocksCleared":
		return engine.KVEvent{Cleared: true}, true, nil
	case "BlockRemoved":
		if f.elsewhere() {
			return e, false, nil
		}
		e.Removed, err = f.readHashes(left)
		return e, err == nil && len(e.Removed) > 0, err
	case "BlockStored":
		if f.elsewhere() || f.lora != nil || f.name != nil || f.salt != nil {
			return e, false, nil
		}
		return f.stored(left)
	}
	return e, false, nil
}

// elsewhere says whether the blocks are not those that prompts are matched with.
func (f *fields) elsewhere() bool {
	if f.group != nil { // of layers that keep a part of the prompt only
		if n, _, err := msgp.ReadInt64Bytes(f.group); err != nil || n != 0 {
			return true
		}
	}
	if f.medium == nil {
		return false
	}
	medium, _, err := msgp.ReadStringZC(f.medium)
	return err != nil || len(medium) > 0 && !strings.EqualFold(string(medium), "GPU")
}

func (f *fields) stored(left *budget) (e engine.KVEvent, told bool, err error) {
	hashes, err := f.readHashes(left)
	if err != nil {
		return e, false, err
	}
	if f.parent != nil {
		e.Chained = true
		if e.Parent, _, err = readHash(f.parent); err != nil {
			return e, false, err
		}
	}
	size, _, err := msgp.ReadInt64Bytes(f.size)
	if err != nil || size < 1 || size > maxTokens {
		return e, false, fmt.Errorf("a block size of %d: %w", size, errors.Join(err))
	}
	tokens, told, err := f.readTokens(left)
	if err != nil || !told {
		return e, false, err
	}
	n := min(len(hashes), len(tokens)/int(size))
	if n, err = f.shared(n); n == 0 || err != nil {
		return e, false, err
	}
	e.Stored = make([]engine.KVBlock, n)
	for i := range e.Stored {
		e.Stored[i] = engine.KVBlock{Hash: hashes[i], Tokens: tokens[:size:size], Size: int(size)}
		tokens = tokens[size:]
	}
	return e, true, nil
}

// shared is how many of n blocks every request can share: those before the first with
// keys of its own.
func (f *fields) shared(n int) (int, error) {
	if f.keys == nil {
		return n, nil
	}
	of, b, err := msgp.ReadArrayHeaderBytes(f.keys)
	for i := 0; err == nil && i < min(n, int(of)); i++ {
		if empty, _, e := msgp.ReadArrayHeaderBytes(b); !msgp.IsNil(b) && (e != nil || empty > 0) {
			return i, nil
		}
		b, err = skip(b, maxDepth)
	}
	return n, err
}

func (f *fields) readHashes(left *budget) ([]uint64, error) {
	n, b, err := msgp.ReadArrayHeaderBytes(f.hashes)
	if err != nil {
		return nil, fmt.Errorf("block hashes: %w", err)
	}
	if left.blocks -= int(n); left.blocks < 0 {
		return nil, fmt.Errorf("more than %d blocks", maxBlocks)
	}
	hashes := make([]uint64, 0, min(int(n), len(b)))
	for range n {
		var h uint64
		if h, b, err = readHash(b); err != nil {
			return nil, err
		}
		hashes = append(hashes, h)
	}
	return hashes, nil
}

// readHash reads a number, of which the bits count, or bytes, of which the last eight.
func readHash(b []byte) (uint64, []byte, error) {
	switch msgp.NextType(b) {
	case msgp.BinType, msgp.StrType:
		raw, rest, err := msgp.ReadBytesZC(b)
		if msgp.NextType(b) == msgp.StrType {
			raw, rest, err = msgp.ReadStringZC(b)
		}
		if err != nil {
			return 0, b, fmt.Errorf("a block hash: %w", err)
		}
		var last [8]byte
		raw = raw[max(0, len(raw)-8):]
		copy(last[8-len(raw):], raw)
		return binary.BigEndian.Uint64(last[:]), rest, nil
	}
	if u, rest, err := msgp.ReadUint64Bytes(b); err == nil {
		return u, rest, nil
	}
	i, rest, err := msgp.ReadInt64Bytes(b)
	if err != nil {
		return 0, b, fmt.Errorf("a block hash: %w", err)
	}
	return uint64(i), rest, nil
}

// readTokens reads token ids; told is false if they are something else, such as pairs.
func (f *fields) readTokens(left *budget) (ids []uint32, told bool, err error) {
	n, b, err := msgp.ReadArrayHeaderBytes(f.tokens)
	if err != nil {
		return nil, false, fmt.Errorf("token ids: %w", err)
	}
	if left.tokens -= int(n); left.tokens < 0 {
		return nil, false, fmt.Errorf("more than %d tokens", maxTokens)
	}
	ids = make([]uint32, 0, min(int(n), len(b)))
	for range n {
		var u uint64
		if u, b, err = msgp.ReadUint64Bytes(b); err != nil || u > math.MaxUint32 {
			return nil, false, nil //nolint:nilerr // it is well-formed, or skip would have said so
		}
		ids = append(ids, uint32(u))
	}
	return ids, true, nil
}
