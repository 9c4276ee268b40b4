package wire

import (
	"errors"
	"strings"
	"testing"

	"smg/worker"
)

func TestParseCluster(t *testing.T) {
	for _, tt := range []struct {
		name string
		want string // part of the error, "" if it is a good name
	}{
		{"default", ""},
		{"Prod_eu-1", ""},
		{strings.Repeat("x", MaxCluster), ""},
		{"", "empty"},
		{strings.Repeat("x", MaxCluster+1), "longer than 64"},
		{"a.b", "'.'"},
		{"a b", "' '"},
		{"*", "'*'"},
		{">", "'>'"},
		{"é", "'é'"},
		{"a\x00", `'\x00'`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParseCluster(tt.name)
			switch {
			case tt.want == "" && (err != nil || c.String() != tt.name):
				t.Errorf("got %v, %v", c, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want ... %s ...", err, tt.want)
			}
		})
	}
}

func TestSubjects(t *testing.T) {
	c, err := ParseCluster("default")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ got, want string }{
		{c.Leases(worker.Regular).Subject, "smg.v1.default.leases.regular"},
		{c.State(worker.Prefill).Subject, "smg.v1.default.state.prefill"},
		{c.Beat(worker.Decode).Subject, "smg.v1.default.beat.decode"},
		{c.Select(worker.Decode, 18446744073709551615).Subject, "smg.v1.default.select.decode.18446744073709551615"},
		{c.Replies(42).Subject, "smg.v1.default.replies.42"},
		{c.Snapshot(worker.Encode).Subject, "smg.v1.default.snapshot.encode"},
		{c.SnapshotOf(worker.Encode, 42).Subject, "smg.v1.default.snapshot.encode.42"},
		{c.LoadsAsk(worker.Encode).Subject, "smg.v1.default.loads.encode"},
		{c.Loads(worker.Encode, 42).Subject, "smg.v1.default.loads.encode.42"},
		{c.Workers().Bucket, "smg_v1_default_workers"},
		{c.Pins(worker.Prefill).Bucket, "smg_v1_default_pins"},
		{c.Pins(worker.Prefill).Keys, "prefill.>"},
		{c.Pins(worker.Decode).FormatKey(worker.PinKey{Model: 0xab, Sum: [16]byte{1, 15: 0xff}}), "decode.00000000000000ab.010000000000000000000000000000ff"},
		{c.Workers().FormatKey(testID(1)), testID(1).String()},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// A message on the subject of another leg or incarnation, a value under the key of another
// worker, and a key that is no id are malformed.
func TestMisplacedMessages(t *testing.T) {
	c, err := ParseCluster("default")
	if err != nil {
		t.Fatal(err)
	}
	_, batch := c.Leases(worker.Prefill).Decode(mustMarshal(t, goodBatch()))
	_, beat := c.Beat(worker.Prefill).Decode(mustMarshal(t, goodBeat()))
	_, spec := c.Workers().Decode(testID(2), mustMarshal(t, goodSpec()))
	_, junk := c.Workers().ParseKey("junk")
	_, form := c.Workers().ParseKey(strings.ToUpper(testID(1).String()))
	_, ask := c.Select(worker.Prefill, 1).Decode(mustMarshal(t, goodSelect()))
	_, reply := c.Replies(2).Decode(mustMarshal(t, goodReply()))
	for name, err := range map[string]error{"select": ask, "reply": reply, "batch": batch, "beat": beat, "spec": spec, "junk": junk, "form": form} {
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want %v", name, err, ErrMalformed)
		}
	}
	if id, err := c.Workers().ParseKey(testID(1).String()); err != nil || id != testID(1) {
		t.Errorf("got %s, %v", id, err)
	}
	if s, err := c.Workers().Decode(testID(1), mustMarshal(t, goodSpec())); err != nil || s.ID != c.Workers().Key(s) {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestPinKeys(t *testing.T) {
	c, err := ParseCluster("default")
	if err != nil {
		t.Fatal(err)
	}
	table := c.Pins(worker.Decode)
	good := table.FormatKey(testPinKey)
	if k, err := table.ParseKey(good); err != nil || k != testPinKey {
		t.Errorf("got %v, %v, want %v", k, err, testPinKey)
	}
	for _, bad := range []string{
		"", "decode.", "decode.1.2", c.Pins(worker.Prefill).FormatKey(testPinKey), strings.ToUpper(good), good + "0", good[:len(good)-1] + "g",
		"decode.g" + good[len("decode.g"):], table.FormatKey(worker.PinKey{Model: 1}),
	} {
		if k, err := table.ParseKey(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v, %v, want %v", bad, k, err, ErrMalformed)
		}
	}
}

func TestReadsString(t *testing.T) {
	for _, tt := range []struct {
		reads Reads
		want  string
	}{
		{0, "nothing"},
		{ReadsKey, "key"},
		{readsAll, "key,size,tokens,text,implicit key,pinned key,conversation key,needs text"},
		{ReadsText | 1<<8, "text,reads(256)"},
	} {
		if got := tt.reads.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
