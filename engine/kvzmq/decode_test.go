package kvzmq

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"smg/engine"
)

// pack is values as msgpack; a list is an array, pairs are a map.
func pack(t testing.TB, v any) []byte {
	t.Helper()
	return appendValue(t, nil, v)
}

type (
	list  []any
	pairs []any
)

func appendValue(t testing.TB, b []byte, v any) []byte {
	switch v := v.(type) {
	case list:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, x := range v {
			b = appendValue(t, b, x)
		}
		return b
	case pairs:
		b = msgp.AppendMapHeader(b, uint32(len(v)/2))
		for _, x := range v {
			b = appendValue(t, b, x)
		}
		return b
	}
	b, err := msgp.AppendIntf(b, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func blocksOf(size int, first uint64, ids ...uint32) (all []engine.KVBlock) {
	for ; len(ids) >= size; ids, first = ids[size:], first+1 {
		all = append(all, engine.KVBlock{Hash: first, Tokens: ids[:size], Size: size})
	}
	return all
}

func TestDecode(t *testing.T) {
	ids := list{1, 2, 3, 4}
	two := blocksOf(2, 11, 1, 2, 3, 4)
	tests := []struct {
		name   string
		events list
		want   []engine.KVEvent
	}{
		{"stored, as vLLM says it", list{list{"BlockStored", list{11, 12}, nil, ids, 2, nil, "GPU", nil, list{nil, nil}, 0}}, []engine.KVEvent{{Stored: two}}},
		{"as older ones", list{list{"BlockStored", list{11, 12}, 10, ids, 2, nil}}, []engine.KVEvent{{Stored: two, Chained: true, Parent: 10}}},
		{
			"as SGLang says it",
			list{pairs{"type", "BlockStored", "block_hashes", list{11, 12}, "parent_block_hash", 10, "token_ids", ids, "block_size", 2, "lora_id", nil, "medium", "GPU", "session_id", "x"}},
			[]engine.KVEvent{{Stored: two, Chained: true, Parent: 10}},
		},
		{"the tag last", list{pairs{"block_hashes", list{11}, "type", "BlockRemoved"}}, []engine.KVEvent{{Removed: []uint64{11}}}},
		{
			"removed and cleared",
			list{list{"BlockRemoved", list{11, 12}, "GPU"}, list{"BlockRemoved", list{13}}, list{"AllBlocksCleared"}, pairs{"type", "AllBlocksCleared"}},
			[]engine.KVEvent{{Removed: []uint64{11, 12}}, {Removed: []uint64{13}}, {Cleared: true}, {Cleared: true}},
		},
		{
			"hashes of every kind",
			list{list{"BlockRemoved", list{-1, uint64(1 << 63), []byte{0xff, 0, 0, 0, 0, 0, 0, 1, 2}, []byte{3}, []byte{}, "\x00\x04"}}},
			[]engine.KVEvent{{Removed: []uint64{1<<64 - 1, 1 << 63, 0x0102, 3, 0, 4}}},
		},
		{"other kinds of events", list{list{"BlockMoved", 1, 2, 3}, pairs{"type", "Later", "x", pairs{1, list{}}}, list{"AllBlocksCleared", 1}}, []engine.KVEvent{{Cleared: true}}},
		{
			"elsewhere",
			list{
				list{"BlockStored", list{11}, nil, ids, 2, nil, "CPU"},
				list{"BlockRemoved", list{11}, "CPU_PINNED"},
				list{"BlockRemoved", list{11}, nil, 1},
				list{"BlockStored", list{11}, nil, ids, 2, nil, nil, nil, nil, 2},
				list{"BlockRemoved", list{11}, 3},
			},
			nil,
		},
		{
			"of some requests only",
			list{
				list{"BlockStored", list{11}, nil, ids, 2, 7},
				list{"BlockStored", list{11}, nil, ids, 2, nil, "GPU", "adapter"},
				pairs{"type", "BlockStored", "block_hashes", list{11}, "parent_block_hash", nil, "token_ids", ids, "block_size", 2, "cache_salt", "s"},
				list{"BlockStored", list{11, 12}, nil, ids, 2, nil, "GPU", nil, list{list{"image"}, nil}},
			},
			nil,
		},
		{
			"some blocks of all requests",
			list{list{"BlockStored", list{11, 12}, nil, ids, 2, nil, "GPU", nil, list{list{}, list{"image"}}}},
			[]engine.KVEvent{{Stored: two[:1]}},
		},
		{"fewer tokens than blocks", list{list{"BlockStored", list{11, 12, 13}, nil, list{1, 2, 3, 4, 5}, 2, nil}}, []engine.KVEvent{{Stored: two}}},
		{"pairs of tokens", list{list{"BlockStored", list{11}, nil, list{list{1, 2}, list{2, 3}}, 2, nil}}, nil},
		{"tokens that are none", list{list{"BlockStored", list{11}, nil, list{-1, 1 << 40}, 2, nil}}, nil},
		{"nothing", list{list{"BlockStored", list{}, nil, list{}, 2, nil}, list{"BlockRemoved", list{}}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, batch := range []list{{1.5, tt.events}, {1.5, tt.events, nil}, {1.5, tt.events, 3, "later"}} {
				got, err := decode(pack(t, batch))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	deep := any(1)
	for range 20 {
		deep = list{deep}
	}
	event := func(parts ...any) []byte { return pack(t, list{0, list{list(parts)}}) }
	huge := append(pack(t, 0), 0xdd, 0xff, 0xff, 0xff, 0xff) // behind a header of two
	tests := []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, ""},
		{"no array", pack(t, "x"), ""},
		{"one field", pack(t, list{1}), "1 fields"},
		{"endless events", append([]byte{0x92}, huge...), "4294967295 events"},
		{"an event that is none", pack(t, list{0, list{1}}), ""},
		{"an event without a tag", event(), "without a tag"},
		{"a tag that is none", event(1, 2), ""},
		{"hashes that are none", event("BlockRemoved", 1), "block hashes"},
		{"a hash that is none", event("BlockRemoved", list{1.5}), "a block hash"},
		{"no hashes", event("BlockRemoved"), "block hashes"},
		{"a parent that is none", event("BlockStored", list{1}, list{}, list{1}, 1, nil), "a block hash"},
		{"no size", event("BlockStored", list{1}, nil, list{1}), "a block size"},
		{"a size of 0", event("BlockStored", list{1}, nil, list{1}, 0, nil), "a block size"},
		{"no tokens", event("BlockStored", list{1}, nil, nil, 1, nil), "token ids"},
		{"too deep", event("Later", deep), "too deep"},
		{"cut off", pack(t, list{0, list{list{"BlockRemoved", list{1, 2}}}})[:18], ""},
		{"endless hashes", append(append([]byte{0x92}, pack(t, 0)...), 0x91, 0x92, 0xac, 'B', 'l', 'o', 'c', 'k', 'R', 'e', 'm', 'o', 'v', 'e', 'd', 0xdd, 0xff, 0xff, 0xff, 0xff), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decode(tt.b)
			if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), tt.want) || got != nil {
				t.Errorf("%v, error %v", got, err)
			}
		})
	}
}

// A batch cannot take much more memory than it is long.
func TestDecodeIsBounded(t *testing.T) {
	cleared := pack(t, list{"AllBlocksCleared"})
	tests := []struct {
		name string
		b    []byte
	}{
		{"events", append([]byte{0x92, 0, 0xdd, 0, 3, 0, 0}, bytes.Repeat(cleared, 3<<16)...)},
		{"hashes", append(append([]byte{0x92, 0, 0x91, 0x92}, pack(t, "BlockRemoved")...), append([]byte{0xdd, 2, 0, 0, 0}, make([]byte, 2<<24)...)...)},
		{"tokens", append(append([]byte{0x92, 0, 0x91, 0x96}, pack(t, "BlockStored")...), append([]byte{0x91, 1, 0xc0, 0xdd, 2, 0, 0, 0}, append(make([]byte, 2<<24), 1, 0xc0)...)...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := decode(tt.b); !errors.Is(err, ErrData) {
				t.Errorf("error %v", err)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("%d bytes of memory for %d", used, len(tt.b))
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(pack(f, list{1.5, list{list{"BlockStored", list{11, 12}, 10, list{1, 2, 3, 4}, 2, nil, "GPU", nil, list{nil, list{"a"}}}}, 0}))
	f.Add(pack(f, list{1.5, list{pairs{"type", "BlockStored", "block_hashes", list{[]byte("0123456789")}, "parent_block_hash", nil, "token_ids", list{1, 2}, "block_size", 2, "lora_id", nil}}}))
	f.Add(pack(f, list{1.5, list{list{"BlockRemoved", list{-1}}, list{"AllBlocksCleared"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := decode(b)
		if (err != nil) != errors.Is(err, ErrData) || err != nil && events != nil {
			t.Fatalf("%v, error %v", events, err)
		}
		for _, e := range events {
			kinds := 0
			for _, is := range []bool{len(e.Stored) > 0, len(e.Removed) > 0, e.Cleared} {
				if is {
					kinds++
				}
			}
			if kinds != 1 {
				t.Fatalf("event %+v", e)
			}
			for _, block := range e.Stored {
				if len(block.Tokens) != block.Size || block.Size < 1 {
					t.Fatalf("block %+v", block)
				}
			}
		}
	})
}
