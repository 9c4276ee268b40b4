package body_test

import (
	"testing"

	"smg/ingress/body"
)

// Bodies of one line share a partition of /generate, bodies of two lines never do.
func TestPartition(t *testing.T) {
	partitions := [][]string{
		{`{"cache_salt":"a"}`, `{"cache_salt":"\u0061"}`, `{"cache_salt":"x","cache_salt":"a"}`, `{"cache_salt":["a","b"]}`, `{"cache_salt":"a","extra_key":"","lora_path":null}`},
		{`{"cache_salt":"b"}`, `{"extra_key":[],"cache_salt":["b"]}`},
		{`{"extra_key":"a"}`},
		{`{"lora_path":"a"}`, `{"lora_path":["a",null]}`},
		{`{"lora_id":"a"}`},
		{`{"cache_salt":"a","extra_key":"b"}`, `{"extra_key":"b","cache_salt":"a"}`},
		{`{"cache_salt":"b","extra_key":"a"}`},
		{`{"cache_salt":"ab"}`},
		{`{"extra_key":"ab"}`},
		{`{"cache_salt":"a","lora_path":"b"}`},
		{`{"cache_salt":"a","lora_id":"b"}`},
		{`{"lora_path":"a","lora_id":"a"}`},
		{`{"cache_salt":"a","extra_key":"a","lora_path":"a","lora_id":"a"}`},
		{`{"cache_salt":"a\u0000extra_key"}`},
	}
	seen := map[uint64]string{0: "no partition"}
	for _, bodies := range partitions {
		var first uint64
		for i, in := range bodies {
			b := parse(t, in)
			got := body.PartitionGenerate(b)
			if i == 0 {
				first = got
				if other, ok := seen[got]; ok {
					t.Errorf("%s shares the partition of %s", in, other)
				}
				seen[got] = in
			}
			if got != first {
				t.Errorf("%s is not in the partition of %s", in, bodies[0])
			}
		}
	}
}

func TestNoPartition(t *testing.T) {
	for _, in := range []string{
		`{}`, `{"cache_salt":"","extra_key":"","lora_path":"","lora_id":""}`, `{"cache_salt":null,"lora_path":[null,"a"]}`,
		`{"cache_salt":7,"extra_key":{"a":"b"},"lora_path":[],"lora_id":[["a"]]}`, `{"metadata":{"cache_salt":"a"}}`,
	} {
		b := parse(t, in)
		if got := body.PartitionGenerate(b); got != 0 {
			t.Errorf("%s: got partition %x, want none", in, got)
		}
	}
	b := parse(t, `{"lora_id":"a"}`)
	if got := body.Partition(b); got != 0 {
		t.Errorf("lora_id counts outside /generate: %x", got)
	}
}

// The hash travels between processes of different builds.
func TestPartitionIsStable(t *testing.T) {
	b := parse(t, `{"cache_salt":"a","extra_key":"b","lora_path":"c"}`)
	if got, want := body.Partition(b), uint64(0x90351499476a3d7c); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
	if body.Partition(b) != body.PartitionGenerate(b) {
		t.Error("routes differ without lora_id")
	}
}
