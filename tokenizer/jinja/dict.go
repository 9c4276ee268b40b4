package jinja

import (
	"iter"
	"math"
)

// Dict is a dict, in the order in which its keys came. The zero Dict is empty.
type Dict struct {
	keys   []Value
	values []Value
	index  map[Value]int // once it is worth it
}

// indexFrom is the number of keys from which on a dict has an index.
const indexFrom = 9

// Len is how many keys there are.
func (d *Dict) Len() int { return len(d.keys) }

// Get is the value of a key.
func (d *Dict) Get(key string) (Value, bool) { return d.get(key) }

// Set sets the value of a key. It is for who builds a dict: templates never see it change.
func (d *Dict) Set(key string, v Value) { d.set(key, v) }

// Delete removes a key.
func (d *Dict) Delete(key string) {
	i := d.find(key)
	if i < 0 {
		return
	}
	d.keys = append(d.keys[:i:i], d.keys[i+1:]...)
	d.values = append(d.values[:i:i], d.values[i+1:]...)
	d.index = nil
}

// Clone is a dict with the same keys and values.
func (d *Dict) Clone() *Dict {
	c := &Dict{keys: make([]Value, 0, len(d.keys)+1), values: make([]Value, 0, len(d.keys)+1)}
	c.keys, c.values = append(c.keys, d.keys...), append(c.values, d.values...)
	return c
}

// hashable is the key that stands for v in an index: equal ones are the same.
func hashable(v Value) (Value, bool) {
	switch v := v.(type) {
	case nil, int64, string:
		return v, true
	case bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v), true
		}
		return v, true
	}
	return nil, false
}

func (d *Dict) find(key Value) int {
	h, ok := hashable(key)
	if !ok {
		return -1
	}
	if len(d.keys) < indexFrom {
		for i, k := range d.keys {
			if k == h {
				return i
			}
			if g, _ := hashable(k); g == h {
				return i
			}
		}
		return -1
	}
	if d.index == nil {
		d.index = make(map[Value]int, len(d.keys))
		for i, k := range d.keys {
			g, _ := hashable(k)
			d.index[g] = i
		}
	}
	if i, ok := d.index[h]; ok {
		return i
	}
	return -1
}

func (d *Dict) get(key Value) (Value, bool) {
	if i := d.find(key); i >= 0 {
		return d.values[i], true
	}
	return nil, false
}

func (d *Dict) set(key, v Value) {
	if i := d.find(key); i >= 0 {
		d.values[i] = v
		return
	}
	if d.index != nil {
		h, _ := hashable(key)
		d.index[h] = len(d.keys)
	}
	d.keys, d.values = append(d.keys, key), append(d.values, v)
}

// pairs are the items of a dict.
func (d *Dict) pairs(r *run) []Value {
	r.alloc(80 * len(d.keys))
	items := make([]Value, len(d.keys))
	for i, k := range d.keys {
		items[i] = &List{Items: []Value{k, d.values[i]}, tuple: true}
	}
	return items
}

// All are the keys that are strings, and their values, in their order.
func (d *Dict) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i, k := range d.keys {
			if s, ok := k.(string); ok && !yield(s, d.values[i]) {
				return
			}
		}
	}
}
