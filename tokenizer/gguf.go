package tokenizer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

const (
	ggufMagic     = "GGUF"
	maxGGUFKeys   = 1 << 16
	maxGGUFArray  = 1 << 23 // entries; the largest vocabularies have half a million merges
	maxGGUFString = 16 << 20
	maxGGUFTotal  = 1 << 30 // bytes of metadata
)

// GGUF is what the metadata of a GGUF file says of its tokenizer.
type GGUF struct {
	Model        string // kind of tokenizer: llama, gpt2, bert, t5
	Pre          string // name of the way to split words, for gpt2
	Tokens       []string
	Scores       []float32
	Types        []int32
	Merges       []string
	Charsmap     []byte
	JSON         string // a whole tokenizer.json, which few files carry
	ChatTemplate string
	BOS, EOS     *uint32
	Unknown      *uint32
	CLS, SEP     *uint32
	AddBOS       *bool
	AddEOS       *bool
	SpacePrefix  *bool
	TrimSpaces   *bool // runs of spaces are one
	Architecture string
	Context      uint64 // tokens of the longest prompt, 0 if the file does not say
}

// The types of tokens.
const (
	ggufUnknown = 2
	ggufControl = 3
	ggufUser    = 4
	ggufUnused  = 5
	ggufByte    = 6
)

// The types of values.
const (
	ggufU8 = iota
	ggufI8
	ggufU16
	ggufI16
	ggufU32
	ggufI32
	ggufF32
	ggufBool
	ggufString
	ggufArray
	ggufU64
	ggufI64
	ggufF64
)

// ggufSizes are the bytes of the values that have a fixed number.
var ggufSizes = [...]int{ggufU8: 1, ggufI8: 1, ggufU16: 2, ggufI16: 2, ggufU32: 4, ggufI32: 4, ggufF32: 4, ggufBool: 1, ggufU64: 8, ggufI64: 8, ggufF64: 8}

type ggufReader struct {
	r    *bufio.Reader
	left int64
	v1   bool // lengths have four bytes
	buf  [8]byte
}

// ReadGGUF reads the metadata at the head of a GGUF file and leaves the tensors.
func ReadGGUF(r io.Reader) (*GGUF, error) {
	g := &ggufReader{r: bufio.NewReaderSize(r, 1<<16), left: maxGGUFTotal}
	head, err := g.bytes(4)
	if err != nil || string(head) != ggufMagic {
		return nil, errors.New("not a GGUF file")
	}
	version, err := g.number(4)
	if err != nil {
		return nil, err
	}
	if version < 1 || version > 3 {
		return nil, fmt.Errorf("GGUF version %d is not known (or the file is big-endian)", version)
	}
	g.v1 = version == 1
	if _, err := g.length(math.MaxInt64); err != nil { // tensors
		return nil, err
	}
	keys, err := g.length(maxGGUFKeys)
	if err != nil {
		return nil, fmt.Errorf("GGUF metadata: %w", err)
	}
	out := &GGUF{}
	for range keys {
		key, err := g.string(1 << 16)
		if err != nil {
			return nil, fmt.Errorf("GGUF metadata: %w", err)
		}
		if err := g.value(out, key); err != nil {
			return nil, fmt.Errorf("GGUF metadata %.80q: %w", key, err)
		}
	}
	return out, nil
}

// value reads the value of key into the field it belongs to, if there is one.
func (g *ggufReader) value(out *GGUF, key string) error {
	kind, err := g.number(4)
	if err != nil {
		return err
	}
	name, ours := strings.CutPrefix(key, "tokenizer.")
	name = strings.TrimPrefix(name, "ggml.")
	var (
		id   **uint32
		flag **bool
		text *string
	)
	switch {
	case key == "general.architecture":
		text = &out.Architecture
	case strings.HasSuffix(key, ".context_length"):
		if kind == ggufU32 || kind == ggufU64 {
			out.Context, err = g.number(ggufSizes[kind])
			return err
		}
	case !ours:
	case name == "model":
		text = &out.Model
	case name == "pre":
		text = &out.Pre
	case name == "huggingface.json":
		text = &out.JSON
	case name == "chat_template":
		text = &out.ChatTemplate
	case name == "tokens":
		return g.strings(kind, &out.Tokens)
	case name == "merges":
		return g.strings(kind, &out.Merges)
	case name == "scores":
		return g.array(kind, ggufF32, func(v uint64) { out.Scores = append(out.Scores, math.Float32frombits(uint32(v))) })
	case name == "token_type":
		return g.array(kind, ggufI32, func(v uint64) { out.Types = append(out.Types, int32(v)) })
	case name == "precompiled_charsmap":
		return g.array(kind, ggufU8, func(v uint64) { out.Charsmap = append(out.Charsmap, byte(v)) })
	case name == "bos_token_id":
		id = &out.BOS
	case name == "eos_token_id":
		id = &out.EOS
	case name == "unknown_token_id":
		id = &out.Unknown
	case name == "cls_token_id":
		id = &out.CLS
	case name == "seperator_token_id", name == "separator_token_id":
		id = &out.SEP
	case name == "add_bos_token":
		flag = &out.AddBOS
	case name == "add_eos_token":
		flag = &out.AddEOS
	case name == "add_space_prefix":
		flag = &out.SpacePrefix
	case name == "remove_extra_whitespaces":
		flag = &out.TrimSpaces
	}
	switch {
	case text != nil:
		if kind != ggufString {
			return errors.New("is not a string")
		}
		*text, err = g.string(maxGGUFString)
		return err
	case id != nil:
		if kind != ggufU32 && kind != ggufI32 {
			return errors.New("is not an id")
		}
		v, err := g.number(4)
		n := uint32(v)
		*id = &n
		return err
	case flag != nil:
		if kind != ggufBool {
			return errors.New("is not true or false")
		}
		v, err := g.number(1)
		b := v != 0
		*flag = &b
		return err
	}
	return g.skip(kind, 0)
}

func (g *ggufReader) spend(n int64) error {
	if n < 0 || n > g.left {
		return errors.New("is too large")
	}
	g.left -= n
	return nil
}

func (g *ggufReader) bytes(n int) ([]byte, error) {
	if err := g.spend(int64(n)); err != nil {
		return nil, err
	}
	b := g.buf[:n]
	_, err := io.ReadFull(g.r, b)
	return b, ended(err)
}

// ended says it in our words when a file ends early.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends too early")
	}
	return err
}

func (g *ggufReader) number(size int) (uint64, error) {
	b, err := g.bytes(size)
	if err != nil {
		return 0, err
	}
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:]), nil
}

func (g *ggufReader) length(most int64) (int, error) {
	size := 8
	if g.v1 {
		size = 4
	}
	n, err := g.number(size)
	if err != nil {
		return 0, err
	}
	if n > uint64(most) {
		return 0, fmt.Errorf("a length of %d is more than %d", n, most)
	}
	return int(n), nil
}

func (g *ggufReader) string(most int64) (string, error) {
	n, err := g.length(most)
	if err != nil {
		return "", err
	}
	if err := g.spend(int64(n)); err != nil {
		return "", err
	}
	// What a length promises is not allocated before it is there.
	var b strings.Builder
	if n < 1<<12 {
		b.Grow(n)
	}
	_, err = io.CopyN(&b, g.r, int64(n))
	return b.String(), ended(err)
}

// arrayOf reads the head of an array and checks the type of its entries.
func (g *ggufReader) arrayOf(kind uint64, want ...uint64) (got uint64, n int, err error) {
	if kind != ggufArray {
		return 0, 0, errors.New("is not an array")
	}
	if got, err = g.number(4); err != nil {
		return 0, 0, err
	}
	if n, err = g.length(maxGGUFArray); err != nil {
		return 0, 0, err
	}
	if slices.Contains(want, got) {
		return got, n, nil
	}
	return got, n, fmt.Errorf("its entries have type %d, want %d", got, want[0])
}

func (g *ggufReader) strings(kind uint64, out *[]string) error {
	_, n, err := g.arrayOf(kind, ggufString)
	for i := 0; i < n && err == nil; i++ {
		var s string
		s, err = g.string(maxGGUFString)
		*out = append(*out, s)
	}
	return err
}

func (g *ggufReader) array(kind, of uint64, put func(uint64)) error {
	other := of
	switch of {
	case ggufI32:
		other = ggufU32
	case ggufU8:
		other = ggufI8
	}
	got, n, err := g.arrayOf(kind, of, other)
	for i := 0; i < n && err == nil; i++ {
		var v uint64
		v, err = g.number(ggufSizes[got])
		put(v)
	}
	return err
}

// skip passes over a value.
func (g *ggufReader) skip(kind uint64, depth int) error {
	switch {
	case kind == ggufString:
		n, err := g.length(maxGGUFTotal)
		if err == nil {
			err = g.discard(int64(n))
		}
		return err
	case kind == ggufArray:
		if depth > 4 {
			return errors.New("arrays are nested too deeply")
		}
		of, err := g.number(4)
		if err != nil {
			return err
		}
		n, err := g.length(maxGGUFTotal)
		if err != nil {
			return err
		}
		if of < uint64(len(ggufSizes)) && ggufSizes[of] > 0 {
			return g.discard(int64(n) * int64(ggufSizes[of]))
		}
		for i := 0; i < n && err == nil; i++ {
			err = g.skip(of, depth+1)
		}
		return err
	case kind < uint64(len(ggufSizes)):
		return g.discard(int64(ggufSizes[kind]))
	}
	return fmt.Errorf("type %d is not known", kind)
}

func (g *ggufReader) discard(n int64) error {
	if err := g.spend(n); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, g.r, n)
	return ended(err)
}
