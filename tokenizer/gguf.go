package tokenizer

import (
	"errors"
	"io"
)

const ggufMagic = "GGUF"

type GGUF struct{}

func ReadGGUF(io.Reader) (*GGUF, error) { return nil, errors.New("todo") }

func (*GGUF) Tokenizer() (*Tokenizer, error) { return nil, errors.New("todo") }
