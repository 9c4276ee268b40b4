package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const head = `{"smg_recording":1,"began":"2026-08-01T12:00:00Z","leg":"regular","policy":"random","cluster":"c","replica":"7","build":"b","whole_prompts":false}` + "\n"

func gzipped(t *testing.T, data string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err := io.WriteString(w, data)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// readAll reads until there is an error.
func readAll(data []byte) (n int, err error) {
	r, err := NewReader(bytes.NewReader(data))
	for ; err == nil; n++ {
		_, err = r.Next()
	}
	return max(0, n-1), err
}

func TestReader(t *testing.T) {
	const (
		w     = `{"t":1,"worker":{"n":1,"id":"x"}}` + "\n"
		ends  = `{"t":2,"close":{"selects":0,"lost":0}}` + "\n"
		begin = `{"t":1,"select":{"lease":"1/2",`
	)
	for _, tt := range []struct {
		name  string
		data  string
		lines int
		is    error  // io.EOF where all is well
		says  string // in another error
	}{
		{name: "whole", data: head + w + ends, lines: 2, is: io.EOF},
		{name: "what later versions tell", data: head + `{"t":1,"weather":{"rain":true}}` + "\n" + ends, lines: 2, is: io.EOF},
		{name: "empty", is: ErrNotOne},
		{name: "something else", data: "hello", is: ErrNotOne},
		{name: "something else with lines", data: "hello\nworld\n", is: ErrNotOne},
		{name: "other JSON", data: `{"timestamp": 0}` + "\n", is: ErrNotOne},
		{name: "an old version", data: strings.Replace(head, ":1,", ":-1,", 1) + ends, is: ErrVersion},
		{name: "a later version", data: strings.Replace(head, ":1,", ":2,", 1) + ends, is: ErrVersion},
		{name: "cut in the header", data: head[:40], is: ErrCut},
		{name: "cut behind a line", data: head + w, lines: 1, is: ErrCut},
		{name: "cut in a line", data: head + w + ends[:10], lines: 1, is: ErrCut},
		{name: "it goes on", data: head + ends + w, lines: 1, says: "line 3"},
		{name: "no JSON", data: head + w + "{\n", lines: 1, says: "line 3"},
		{name: "a stranger is chosen", data: head + begin + `"worker":1}}` + "\n", says: "worker 1"},
		{name: "a stranger begins", data: head + `{"t":1,"begin":{"lease":"1/2","worker":3}}` + "\n", says: "worker 3"},
		{name: "a stranger reports", data: head + `{"t":1,"load":{"n":2}}` + "\n", says: "worker 2"},
		{name: "no number", data: head + `{"t":1,"worker":{"n":0,"id":"x"}}` + "\n", says: "number 0"},
		{name: "no lease", data: head + `{"t":1,"end":{"lease":"12"}}` + "\n", says: "line 2"},
		{name: "an item too many", data: head + `{"t":1,"end":{"lease":"1/2/65536"}}` + "\n", says: "line 2"},
		{name: "negative", data: head + begin + `"chars":-1}}` + "\n", says: "cannot be"},
		{name: "a negative load", data: head + w + `{"t":1,"load":{"n":1,"waiting":-1}}` + "\n", lines: 1, says: "cannot be"},
		{name: "too few digests", data: head + begin + `"seen":65,"text":"AAAAAAAAAAA="}}` + "\n", says: "16 are right"},
		{name: "half a digest", data: head + begin + `"seen":5,"ids":"AAAA"}}` + "\n", says: "8 are right"},
		{name: "told twice", data: head + begin + `"seen":5,"ids":"AAAAAAAAAAA=","prompt":"hello"}}` + "\n", says: "twice"},
		{name: "another length", data: head + begin + `"seen":4,"prompt":"hello"}}` + "\n", says: "of 4"},
		{name: "nothing told", data: head + begin + `"seen":4}}` + "\n", says: "4 characters"},
		{name: "a line without an end", data: head + strings.Repeat("x", maxLine+100), says: "longer"},
	} {
		for kind, data := range map[string][]byte{"plain": []byte(tt.data), "compressed": gzipped(t, tt.data)} {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				n, err := readAll(data)
				if n != tt.lines {
					t.Errorf("%d lines, want %d", n, tt.lines)
				}
				if tt.is != nil && !errors.Is(err, tt.is) || tt.is == nil && (err == nil || !strings.Contains(err.Error(), tt.says)) {
					t.Errorf("error %v, want %v %q", err, tt.is, tt.says)
				}
			})
		}
	}
}

func TestReaderOfCutCompression(t *testing.T) {
	data := gzipped(t, head+strings.Repeat(`{"t":1,"end":{"lease":"1/2","outcome":"success"}}`+"\n", 100))
	if _, err := readAll(data[:len(data)-20]); !errors.Is(err, ErrCut) {
		t.Errorf("error %v, want ErrCut", err)
	}
	if _, err := readAll(data[:5]); !errors.Is(err, ErrCut) {
		t.Errorf("error %v, want ErrCut", err)
	}
	data[len(data)-5] ^= 0xff // of the checksum
	if _, err := readAll(data); !errors.Is(err, gzip.ErrChecksum) {
		t.Errorf("error %v for spoilt data, want that of the checksum", err)
	}
}

// FuzzReader: no input does harm, and what is read is written the same way.
func FuzzReader(f *testing.F) {
	d := &disk{}
	recording(f, d, "x", config, story)
	f.Add(d.buf.Bytes())
	f.Add([]byte(head + `{"t":2,"close":{"selects":0,"lost":0}}` + "\n"))
	f.Add([]byte(head + `{"t":1,"select":{"lease":"1/2/3","seen":5,"prompt":"hello","keys":{"rid":"x"}}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		again := bytes.NewBufferString(head)
		var want []Line
		for {
			l, err := r.Next()
			if err != nil {
				break
			}
			want = append(want, l)
			text, err := json.Marshal(&l)
			if err != nil {
				t.Fatalf("a line that was read cannot be written: %v", err)
			}
			again.Write(append(text, '\n'))
		}
		r, err = NewReader(again)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			got, err := r.Next()
			if err != nil {
				t.Fatalf("line %d: %v", i, err)
			}
			if diff := cmp.Diff(want[i], got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("line %d (-first +again):\n%s", i, diff)
			}
		}
	})
}
