package simzmq

import (
	"github.com/tinylib/msgp/msgp"

	"smg/sim"
	"smg/sim/simhttp"
)

// encode is a batch as the engine's publisher writes it: [time, events, rank], the events
// of vLLM as arrays that begin with a tag, those of SGLang as maps.
func encode(kind simhttp.Kind, blockSize int, b *simhttp.KVBatch) []byte {
	out := msgp.AppendArrayHeader(nil, 3)
	out = msgp.AppendFloat64(out, float64(b.At.UnixMicro())/1e6)
	out = msgp.AppendArrayHeader(out, uint32(len(b.Events)))
	e := encoder{out, kind == simhttp.SGLang}
	for i := range b.Events {
		e.event(&b.Events[i], blockSize)
	}
	return msgp.AppendInt(e.out, 0)
}

// encoder appends events.
type encoder struct {
	out   []byte
	named bool // fields have names
}

// begin begins an event with so many fields besides its tag.
func (e *encoder) begin(tag string, fields int) {
	if e.named {
		e.out = msgp.AppendMapHeader(e.out, uint32(fields+1))
		e.out = msgp.AppendString(e.out, "type")
	} else {
		e.out = msgp.AppendArrayHeader(e.out, uint32(fields+1))
	}
	e.out = msgp.AppendString(e.out, tag)
}

// name begins a field.
func (e *encoder) name(name string) {
	if e.named {
		e.out = msgp.AppendString(e.out, name)
	}
}

func (e *encoder) event(ev *simhttp.KVEvent, blockSize int) {
	switch ev.Kind {
	case sim.Stored:
		e.begin("BlockStored", 6)
		e.hashes(ev.Hash)
		e.name("parent_block_hash")
		if ev.Chained {
			e.out = e.hash(ev.Parent)
		} else {
			e.out = msgp.AppendNil(e.out)
		}
		e.name("token_ids")
		e.out = msgp.AppendArrayHeader(e.out, uint32(len(ev.Tokens)))
		for _, t := range ev.Tokens {
			e.out = msgp.AppendUint32(e.out, uint32(t))
		}
		e.name("block_size")
		e.out = msgp.AppendInt(e.out, blockSize)
		e.name("lora_id")
		e.out = msgp.AppendNil(e.out)
		e.medium()
	case sim.Evicted:
		e.begin("BlockRemoved", 2)
		e.hashes(ev.Hash)
		e.medium()
	case sim.Cleared:
		e.begin("AllBlocksCleared", 0)
	}
}

func (e *encoder) hashes(h uint64) {
	e.name("block_hashes")
	e.out = msgp.AppendArrayHeader(e.out, 1)
	e.out = e.hash(h)
}

// hash appends a block's hash: SGLang's are signed, vLLM's are not.
func (e *encoder) hash(h uint64) []byte {
	if e.named {
		return msgp.AppendInt64(e.out, int64(h))
	}
	return msgp.AppendUint64(e.out, h)
}

func (e *encoder) medium() {
	e.name("medium")
	e.out = msgp.AppendString(e.out, "GPU")
}
