package body

import (
	"errors"
	"testing"
)

func TestTooLarge(t *testing.T) {
	b := Body{raw: []byte(`{"a":1}`), maxDepth: DefaultMaxDepth}
	if err := b.scan(7); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	b = Body{raw: []byte(`{"a":1}`), maxDepth: DefaultMaxDepth}
	var e *Error
	if err := b.scan(6); !errors.As(err, &e) || e.Kind != KindTooLarge || e.Error() != "the body is longer than 6 bytes" {
		t.Errorf("got %v", err)
	}
}

func TestKeyTable(t *testing.T) {
	for k := range keyCount {
		if got := keyOf([]byte(k.String())); got != k {
			t.Errorf("keyOf(%q) is %d, want %d", k.String(), got, k)
		}
		if len(k.String()) > maxKeyLen {
			t.Errorf("%v is longer than maxKeyLen", k)
		}
	}
	if keyOf([]byte("Model")) != keyCount {
		t.Error("keys are compared as they are")
	}
}
