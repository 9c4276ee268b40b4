package wire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"smg/wire/wirepb"
	"smg/worker"
)

var update = flag.Bool("update", false, "record golden files that are missing")

// recording is a message as it was once sent. It is never changed, since programs
// that send it so may run beside newer ones for ever. A message that is encoded
// differently from now on gets a new recording; the one before stays, as old.
type recording struct {
	name  string
	want  any // what it decodes to
	old   bool
	codec codec
}

// codec has the types of a message erased.
type codec struct {
	append func([]byte, any) ([]byte, error)
	decode func([]byte) (any, error)
	raw    func() proto.Message
}

func codecOf[T any](appendTo func([]byte, *T) ([]byte, error), decode func([]byte) (*T, error), raw func() proto.Message) codec {
	return codec{
		append: func(buf []byte, v any) ([]byte, error) { return appendTo(buf, v.(*T)) },
		decode: func(data []byte) (any, error) {
			v, err := decode(data)
			if err != nil {
				return nil, err
			}
			return v, nil
		},
		raw: raw,
	}
}

var (
	batchCodec = codecOf(AppendBatch, DecodeBatch, func() proto.Message { return &wirepb.LeaseBatch{} })
	stateCodec = codecOf(AppendRecords, DecodeRecords, func() proto.Message { return &wirepb.Records{} })
	beatCodec  = codecOf(AppendBeat, DecodeBeat, func() proto.Message { return &wirepb.Beat{} })
	specCodec  = codecOf(AppendSpec, DecodeSpec, func() proto.Message { return &wirepb.Worker{} })
	askCodec   = codecOf(AppendSelect, DecodeSelect, func() proto.Message { return &wirepb.Select{} })
	askLoads   = codecOf(AppendLoadsAsk, DecodeLoadsAsk, func() proto.Message { return &wirepb.LoadsAsk{} })
	loadsCodec = codecOf(AppendLoads, DecodeLoads, func() proto.Message { return &wirepb.Loads{} })
	snapCodec  = codecOf(AppendSnapshot, DecodeSnapshot, func() proto.Message { return &wirepb.Snapshot{} })
	pinCodec   = codecOf(AppendPin, func(data []byte) (*worker.Pin, error) { return DecodePin(testPinKey, data) }, func() proto.Message { return &wirepb.Pin{} })
	replyCodec = codecOf(AppendReply, DecodeReply, func() proto.Message { return &wirepb.Reply{} })
)

// testPinKey is the key of all pins of these tests.
var testPinKey = worker.PinKeyOf("meta/llama", worker.HashKey("conv"))

func testID(n int) worker.ID { return worker.IDOf(fmt.Sprintf("http://10.0.0.%d:8000", n)) }

func testLease(plan uint64, leg worker.Leg, id worker.ID, tokens int64) worker.Lease {
	return worker.Lease{
		ID:     worker.LeaseID{Incarnation: 0x1122334455667788, Plan: plan, Leg: leg},
		Worker: id,
		Tokens: tokens,
		Key:    plan << 40,
	}
}

// recordings are all messages in all their shapes.
func recordings() []recording {
	const incarnation = 0x1122334455667788
	item := testLease(7, worker.Encode, testID(1), 0)
	item.ID.Item = 65535
	probe := testLease(6, worker.Decode, testID(1), 512)
	probe.Probe = true
	units := testLease(11, worker.Decode, testID(1), 0)
	units.Units = 32
	whole := testLease(300, worker.Decode, testID(2), 1<<40)
	return []recording{
		{name: "leases-beat-empty", codec: batchCodec, want: &worker.Batch{
			Ingress: "gw-0", Incarnation: incarnation, Leg: worker.Regular, Seq: 1,
			Beat: &worker.Beat{},
		}},
		{name: "leases-entries", codec: batchCodec, want: &worker.Batch{
			Ingress: "gw-0", Incarnation: incarnation, Leg: worker.Decode, Seq: 1<<63 + 1,
			Entries: []worker.Entry{
				{Kind: worker.EntryStart, Lease: testLease(5, worker.Decode, testID(1), 0)},
				{Kind: worker.EntryStart, Lease: probe},
				{Kind: worker.EntryHead, Lease: testLease(6, worker.Decode, worker.ID{}, 0), Outcome: worker.Success},
				{Kind: worker.EntryEnd, Lease: testLease(5, worker.Decode, worker.ID{}, 0), Outcome: worker.Failure},
				{Kind: worker.EntryEnd, Lease: testLease(9, worker.Decode, worker.ID{}, 0), Unreached: true},
				{Kind: worker.EntryWhole, Lease: whole, Outcome: worker.Success},
			},
		}},
		{name: "leases-items-and-beat", codec: batchCodec, want: &worker.Batch{
			Ingress: "gw-0", Incarnation: incarnation, Leg: worker.Encode, Seq: 2,
			Entries: []worker.Entry{{Kind: worker.EntryStart, Lease: item}},
			Beat: &worker.Beat{Open: 9, Quarter: 3, Renewed: []worker.Lease{
				item,
				testLease(8, worker.Encode, testID(2), 17),
				{ID: worker.LeaseID{Incarnation: incarnation, Plan: 10, Leg: worker.Encode}, Worker: testID(1), Probe: true},
			}},
		}},
		{name: "leases-units", codec: batchCodec, want: &worker.Batch{
			Ingress: "gw-0", Incarnation: incarnation, Leg: worker.Decode, Seq: 3,
			Entries: []worker.Entry{{Kind: worker.EntryStart, Lease: units}},
			Beat:    &worker.Beat{Open: 1, Renewed: []worker.Lease{units}},
		}},
		{name: "leases-part-of-a-beat", codec: batchCodec, want: &worker.Batch{
			Ingress: "gw-0", Incarnation: incarnation, Leg: worker.Encode, Seq: 3,
			Beat: &worker.Beat{Open: 70000, Quarter: 3, Part: 1, Parts: 2, Renewed: []worker.Lease{testLease(8, worker.Encode, testID(2), 17)}},
		}},
		{name: "state-full", codec: stateCodec, want: &Records{
			{
				Worker: testID(1), Epoch: 1790000000000, Term: 3, Keeper: 0xfedcba9876543210, Seq: 42,
				Status: worker.NotReady, Breaker: worker.HalfOpen, BreakerAge: 1500 * time.Millisecond,
				Overloaded: true, Report: &Report{Age: 250 * time.Microsecond, Load: worker.Report{
					GoodFor: 30 * time.Second, Waiting: 8, Queued: 1 << 20, Running: 3, MaxRunning: 256, Throughput: 1999.5, KVUsage: 0.875,
				}},
			},
			{Worker: testID(2), Epoch: 1, Term: 1, Keeper: 1, Seq: 1, Status: worker.Ready, Report: &Report{Load: worker.Report{Queued: worker.NotReported}}},
		}},
		{name: "state-ranks", codec: stateCodec, want: &Records{
			{Worker: testID(1), Keeper: 1, BreakerAge: -1, Report: &Report{Load: worker.Report{
				Queued: worker.NotReported, Ranks: []worker.RankUse{{Rank: 0, Used: 1 << 33}, {Rank: 1}},
			}}},
		}},
		{name: "state-least", codec: stateCodec, want: &Records{{Worker: testID(1), Keeper: 1, BreakerAge: -1}}},
		{name: "state-process", codec: stateCodec, want: &Records{{
			Worker: testID(1), Epoch: 1790000000000, Term: 3, Keeper: 1, Seq: 42, Status: worker.Ready, BreakerAge: 0,
			Process: worker.Process{ID: 0xfedcba9876543210, BootstrapPort: 8998},
		}}},
		{name: "beat-full", codec: beatCodec, want: &Beat{
			Replica: 0xfedcba9876543210, Leg: worker.Prefill, Ready: true, Draining: true,
			Build: "0.1.0", Versions: []uint32{1, 2},
			Policies: []PolicyUse{
				{Name: "round_robin"},
				{Name: "consistent_hashing", Reads: ReadsKey},
				{Name: "everything", Reads: readsAll &^ NeedsText},
			},
			Models: []string{"meta/llama", "qwen"},
		}},
		{name: "beat-text", codec: beatCodec, want: &Beat{Replica: 1, Policies: []PolicyUse{{Name: "everything", Reads: readsAll}}}},
		{name: "beat-least", codec: beatCodec, want: &Beat{Replica: 1}},
		{name: "worker-full", codec: specCodec, want: &worker.Spec{
			ID: testID(1), URL: "http://10.0.0.1:8000", Leg: worker.Prefill, Mode: worker.GRPC, Runtime: worker.SGLang,
			Models:   []worker.Model{{ID: "meta/llama", Aliases: []string{"llama", "ラマ"}}, {ID: "qwen"}},
			Labels:   map[string]string{"zone": "a", "policy": "random", "empty": ""},
			Priority: -5, Cost: 0.25,
			BootstrapHost: "10.0.0.1", BootstrapPort: 8998, BootstrapSource: "cli", Conflict: "bootstrap_port_conflict",
			RegisteredAt: time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC),
		}},
		{name: "worker-limits", codec: specCodec, want: &worker.Spec{
			ID: testID(1), URL: "http://10.0.0.1:8000",
			Overload: worker.OverloadLimits{Waiting: 5, TokenUsage: 0.75}, LoadInterval: 2 * time.Second,
		}},
		{name: "worker-own", codec: specCodec, want: &worker.Spec{
			ID: testID(1), URL: "http://10.0.0.1:8000", SealedKey: []byte("\x00sealed\xff"), Revision: 7,
			DrainingSince: time.UnixMilli(1790000000123).UTC(),
			Health: &worker.HealthRules{
				Timeout: 3 * time.Second, Interval: time.Minute, SuccessThreshold: 2, FailureThreshold: 5, Disabled: new(false), Settle: new(time.Duration(0)),
			},
			Breaker: &worker.BreakerRules{
				FailureThreshold: 4, SuccessThreshold: 1, Timeout: 30 * time.Second, FailureStatuses: []int{500, 599}, CapacityStatuses: []int{},
			},
			Pool: &worker.PoolRules{MaxIdle: new(0), IdleTimeout: new(2 * time.Second), Timeout: time.Hour, ConnectTimeout: 5 * time.Second},
		}},
		{name: "worker-own-least", codec: specCodec, want: &worker.Spec{
			ID: testID(1), URL: "http://10.0.0.1:8000", Health: &worker.HealthRules{}, Breaker: &worker.BreakerRules{}, Pool: &worker.PoolRules{},
		}},
		{name: "worker-hand-over", codec: specCodec, want: &worker.Spec{
			ID: testID(1), URL: "http://10.0.0.1:8000@1", Leg: worker.Prefill, Runtime: worker.VLLM,
			KVConnector: worker.MooncakeConnector, KVRole: "kv_producer", KVEngineID: "engine_dp1", DPSize: 2, DPRank: 1,
			BaseURL: "http://10.0.0.1:8000", Media: []string{"image", "audio"},
		}},
		{name: "pin-full", codec: pinCodec, want: &worker.Pin{Key: testPinKey, Workers: [2]worker.ID{testID(1), testID(2)}, Replica: 0xfedcba9876543210}},
		{name: "pin-least", codec: pinCodec, want: &worker.Pin{Key: testPinKey, Workers: [2]worker.ID{testID(1)}, Replica: 1}},
		{name: "select-full", codec: askCodec, want: &Select{
			Lease: worker.LeaseID{Incarnation: incarnation, Plan: 7, Leg: worker.Encode, Item: 65535},
			Model: "ラマ\xff", Target: "+3\xfe",
			Keys: worker.Keys{
				RID: worker.HashKey("rid"), Header: worker.HashKey("header_t1"), Conversation: worker.HashKey("header"),
				Pinned: worker.HashKey("pinned"), Implicit: worker.HashKey("implicit"),
			},
			Text: "你好 world", Chars: 1 << 33, TokenIDs: []uint32{0, 1, math.MaxUint32}, Namespace: 1<<63 | 1,
			Tokens: 1 << 40, Skip: []worker.ID{testID(1), testID(2)},
		}},
		{name: "select-pairs", codec: askCodec, want: &Select{
			Lease: worker.LeaseID{Incarnation: incarnation, Plan: 7, Leg: worker.Decode},
			Fit:   &worker.Fit{Class: worker.Class{Runtime: worker.VLLM, Connector: worker.NixlConnector, Group: "blue"}, Groups: []string{"blue", "red"}},
			Units: 32, Wait: 1500 * time.Millisecond, Priority: -3, Tenant: "t\xff", Dry: true,
		}},
		{name: "select-transport", codec: askCodec, want: &Select{
			Lease: worker.LeaseID{Incarnation: incarnation, Plan: 7, Leg: worker.Decode},
			Fit:   &worker.Fit{Class: worker.Class{Runtime: worker.SGLang, Transport: "grpc"}},
		}},
		{name: "select-least", codec: askCodec, want: &Select{Lease: worker.LeaseID{Incarnation: 1, Plan: 1}}},
		{name: "reply-pick", codec: replyCodec, want: &Reply{
			Lease:   worker.LeaseID{Incarnation: incarnation, Plan: 7, Leg: worker.Prefill, Item: 65535},
			Replica: 0xfedcba9876543210,
			Pick: Pick{
				Worker: &worker.Spec{
					ID: testID(1), URL: "http://10.0.0.1:8000", Leg: worker.Prefill, Mode: worker.GRPC, Runtime: worker.SGLang,
					Models: []worker.Model{{ID: "meta/llama"}}, BootstrapHost: "10.0.0.1", BootstrapPort: 8998,
				},
				Epoch: 1790000000000, Probe: true, Policy: "cache_aware", Branch: "prefix",
			},
		}},
		{name: "reply-hand-over", codec: replyCodec, want: &Reply{
			Lease: worker.LeaseID{Incarnation: 1, Plan: 1, Leg: worker.Prefill}, Replica: 1,
			Pick: Pick{
				Worker: &worker.Spec{
					ID: testID(1), URL: "http://10.0.0.1:8000@1", Leg: worker.Prefill, Runtime: worker.VLLM,
					KVConnector: worker.MooncakeConnector, KVEngineID: "engine_dp1", DPSize: 2, DPRank: 1, BaseURL: "http://10.0.0.1:8000",
					Labels: map[string]string{worker.GroupLabel: "blue"},
				},
				Matched: 1 << 33,
			},
		}},
		{name: "reply-sealed-key", codec: replyCodec, want: &Reply{
			Lease: worker.LeaseID{Incarnation: 1, Plan: 1}, Replica: 1,
			Pick: Pick{Worker: &worker.Spec{ID: testID(1), URL: "http://10.0.0.1:8000", SealedKey: []byte("\x00sealed\xff")}},
		}},
		{name: "reply-rules", codec: replyCodec, want: &Reply{
			Lease: worker.LeaseID{Incarnation: 1, Plan: 1}, Replica: 1,
			Pick: Pick{Worker: &worker.Spec{
				ID: testID(1), URL: "http://10.0.0.1:8000",
				Breaker: &worker.BreakerRules{FailureThreshold: 4, FailureStatuses: []int{500, 599}, CapacityStatuses: []int{}},
				Pool:    &worker.PoolRules{MaxIdle: new(0), IdleTimeout: new(2 * time.Second), Timeout: time.Hour, ConnectTimeout: 5 * time.Second},
			}},
		}},
		{name: "reply-queued", codec: replyCodec, want: &Reply{Lease: worker.LeaseID{Incarnation: 1, Plan: 1}, Replica: 1, Queued: true}},
		{name: "reply-mismatch", codec: replyCodec, want: &Reply{
			Lease: worker.LeaseID{Incarnation: 1, Plan: 1}, Replica: 1,
			Err: &Error{Code: CodeCompatMismatch, Message: "none fits", Classes: []worker.Class{{Runtime: worker.SGLang}, {Runtime: worker.VLLM, Connector: worker.NixlConnector, Group: "blue"}}},
		}},
		{name: "reply-full", codec: replyCodec, want: &Reply{
			Lease: worker.LeaseID{Incarnation: 1, Plan: 1, Leg: worker.Decode}, Replica: 1, Err: &Error{Code: CodeAdmissionFull},
		}},
		{name: "reply-least", codec: replyCodec, want: &Reply{
			Lease: worker.LeaseID{Incarnation: 1, Plan: 1}, Replica: 1,
			Pick: Pick{Worker: &worker.Spec{ID: testID(1), URL: "http://10.0.0.1:8000"}},
		}},
		{name: "reply-error", codec: replyCodec, want: &Reply{
			Lease: worker.LeaseID{Incarnation: 1, Plan: 1, Leg: worker.Decode}, Replica: 1,
			Err: &Error{Code: CodeOverloaded, Message: "every worker is overloaded"},
		}},
		{name: "snapshot", codec: snapCodec, want: &Snapshot{Asker: 0xfedcba9876543210}},
		{name: "snapshot_stage", codec: snapCodec, want: &Snapshot{Asker: 0xfedcba9876543210, Stage: worker.RecallReplicas}},
		{name: "loads_ask", codec: askLoads, want: &LoadsAsk{Asker: 0xfedcba9876543210, Question: 7}},
		{name: "loads", codec: loadsCodec, want: goodLoads()},
		{name: "worker-least", codec: specCodec, want: &worker.Spec{ID: testID(1), URL: "http://10.0.0.1:8000"}},
	}
}

// Every recording decodes to its value, and every message is still encoded as it
// was recorded.
func TestGolden(t *testing.T) {
	known := map[string]bool{}
	for _, r := range recordings() {
		t.Run(r.name, func(t *testing.T) {
			file := filepath.Join("testdata", r.name+".golden")
			known[file] = true
			now, err := r.codec.append(nil, r.want)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(file); *update && os.IsNotExist(err) {
				record(t, file, now, r.codec)
			}
			recorded := replay(t, file)
			got, err := r.codec.decode(recorded)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(r.want, got); d != "" {
				t.Errorf("the recording decodes to another value (-want +got):\n%s", d)
			}
			if same := bytes.Equal(now, recorded); !same && !r.old {
				t.Errorf("the message is encoded differently now:\n%s\nIf that is meant, mark the recording as old and add a new one.", show(now, r.codec))
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f] {
			t.Errorf("%s is the recording of nothing", f)
		}
	}
}

func record(t *testing.T, file string, data []byte, c codec) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for chunk := range slices.Chunk(data, 32) {
		fmt.Fprintf(&b, "%x\n", chunk)
	}
	fmt.Fprintf(&b, "\n%s", show(data, c))
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replay is the bytes of a recording: hex lines up to an empty one. What follows
// is for people.
func replay(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n\n")
	data, err := hex.DecodeString(strings.ReplaceAll(head, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// show is a message for people, stable from version to version.
func show(data []byte, c codec) string {
	m := c.raw()
	if err := proto.Unmarshal(data, m); err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d bytes\n", m.ProtoReflect().Descriptor().Name(), len(data))
	showFields(&b, "  ", m.ProtoReflect())
	return b.String()
}

func showFields(b *strings.Builder, indent string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		switch v := m.Get(f); {
		case f.IsList():
			for j := range v.List().Len() {
				showValue(b, indent, f, f.TextName(), v.List().Get(j))
			}
		case f.IsMap():
			var keys []string
			v.Map().Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
				keys = append(keys, k.String())
				return true
			})
			slices.Sort(keys)
			for _, k := range keys {
				showValue(b, indent, f.MapValue(), fmt.Sprintf("%s[%q]", f.TextName(), k), v.Map().Get(protoreflect.ValueOfString(k).MapKey()))
			}
		default:
			showValue(b, indent, f, f.TextName(), v)
		}
	}
}

func showValue(b *strings.Builder, indent string, f protoreflect.FieldDescriptor, name string, v protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		fmt.Fprintf(b, "%s%s\n", indent, name)
		showFields(b, indent+"  ", v.Message())
	case protoreflect.EnumKind:
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, f.Enum().Values().ByNumber(v.Enum()).Name())
	case protoreflect.BytesKind:
		fmt.Fprintf(b, "%s%s: %x\n", indent, name, v.Bytes())
	case protoreflect.StringKind:
		fmt.Fprintf(b, "%s%s: %q\n", indent, name, v.String())
	default:
		fmt.Fprintf(b, "%s%s: %v\n", indent, name, v.Interface())
	}
}
