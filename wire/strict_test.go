package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"smg/wire/wirepb"
	"smg/worker"
)

func mustMarshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The messages that the cases below spoil.

func goodBatch() *wirepb.LeaseBatch {
	id := testID(1)
	return &wirepb.LeaseBatch{
		Ingress: "i", Incarnation: 1, Leg: wirepb.Leg_LEG_DECODE, Seq: 1, Workers: id[:],
		Entries: []*wirepb.LeaseEntry{{Kind: wirepb.EntryKind_ENTRY_KIND_START, Plan: 1, Worker: 1}},
		Beat:    &wirepb.LeaseBeat{Open: 1, Quarter: 1, Renewed: []*wirepb.Lease{{Plan: 1, Worker: 1}}},
	}
}

func goodState() *wirepb.Records {
	id := testID(1)
	return &wirepb.Records{Records: []*wirepb.State{{Worker: id[:], Keeper: 1, Status: wirepb.Status_STATUS_READY, Breaker: wirepb.Breaker_BREAKER_OPEN}}}
}

func goodBeat() *wirepb.Beat {
	return &wirepb.Beat{Replica: 1, Leg: wirepb.Leg_LEG_DECODE, Policies: []*wirepb.Policy{{Name: "p"}}}
}

func goodSpec() *wirepb.Worker {
	id := testID(1)
	return &wirepb.Worker{Id: id[:], Url: "http://a", Leg: wirepb.Leg_LEG_REGULAR, Mode: wirepb.Mode_MODE_HTTP}
}

func goodPin() *wirepb.Pin {
	first, second := testID(1), testID(2)
	return &wirepb.Pin{Workers: append(first[:], second[:]...), Replica: 1}
}

func goodSelect() *wirepb.Select {
	return &wirepb.Select{Incarnation: 1, Plan: 1, Leg: wirepb.Leg_LEG_DECODE, HeaderKey: &wirepb.Key{
		Sum: make([]byte, 16),
	}}
}

func goodReply() *wirepb.Reply {
	id := testID(1)
	return &wirepb.Reply{
		Incarnation: 1, Plan: 1, Leg: wirepb.Leg_LEG_DECODE, Replica: 1,
		Pick: &wirepb.Pick{Worker: id[:], Url: "http://a", Leg: wirepb.Leg_LEG_DECODE, Mode: wirepb.Mode_MODE_HTTP},
	}
}

// spoil is a case: what is done to a good message, and what the error says.
type spoil[M any] struct {
	name string
	do   func(M)
	want string
}

func runSpoils[M proto.Message](t *testing.T, good func() M, c codec, cases []spoil[M]) {
	t.Helper()
	if _, err := c.decode(mustMarshal(t, good())); err != nil {
		t.Fatalf("the good message: %v", err)
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			m := good()
			tt.do(m)
			_, err := c.decode(mustMarshal(t, m))
			if !errors.Is(err, ErrMalformed) || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v, want ... %s ...", err, tt.want)
			}
		})
	}
}

func times[T any](n int, v T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func TestDecodeBatchIsStrict(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	runSpoils(t, goodBatch, batchCodec, []spoil[*wirepb.LeaseBatch]{
		{"no ingress", func(m *wirepb.LeaseBatch) { m.Ingress = "" }, "no name"},
		{"long ingress", func(m *wirepb.LeaseBatch) { m.Ingress = long }, "257 bytes"},
		{"no incarnation", func(m *wirepb.LeaseBatch) { m.Incarnation = 0 }, "incarnation is 0"},
		{"no leg", func(m *wirepb.LeaseBatch) { m.Leg = 0 }, "unknown leg 0"},
		{"newer leg", func(m *wirepb.LeaseBatch) { m.Leg = 5 }, "unknown leg 5"},
		{"negative leg", func(m *wirepb.LeaseBatch) { m.Leg = -1 }, "unknown leg -1"},
		{"no number", func(m *wirepb.LeaseBatch) { m.Seq = 0 }, "sequence number is 0"},
		{"torn table", func(m *wirepb.LeaseBatch) { m.Workers = m.Workers[:15] }, "table of workers has 15"},
		{"nobody in the table", func(m *wirepb.LeaseBatch) { m.Workers = make([]byte, 16) }, "at no worker"},
		{"too many entries", func(m *wirepb.LeaseBatch) { m.Entries = times(MaxEntries+1, m.Entries[0]) }, "1025 entries"},
		{"no plan", func(m *wirepb.LeaseBatch) { m.Entries[0].Plan = 0 }, "plan number 0"},
		{"item", func(m *wirepb.LeaseBatch) { m.Entries[0].Item = 1 << 16 }, "item 65536"},
		{"tokens", func(m *wirepb.LeaseBatch) { m.Entries[0].Tokens = 1 << 63 }, "tokens"},
		{"units", func(m *wirepb.LeaseBatch) { m.Entries[0].Units = 1 << 31 }, "units"},
		{"place", func(m *wirepb.LeaseBatch) { m.Entries[0].Worker = 2 }, "worker 2 of 1"},
		{"far place", func(m *wirepb.LeaseBatch) { m.Entries[0].Worker = math.MaxUint32 }, "of 1"},
		{"start at nobody", func(m *wirepb.LeaseBatch) { m.Entries[0].Worker = 0 }, "at no worker"},
		{"whole at nobody", func(m *wirepb.LeaseBatch) {
			m.Entries[0].Kind, m.Entries[0].Worker = wirepb.EntryKind_ENTRY_KIND_WHOLE, 0
		}, "at no worker"},
		{"quarter", func(m *wirepb.LeaseBatch) { m.Beat.Quarter = 4 }, "quarter 4"},
		{"far quarter", func(m *wirepb.LeaseBatch) { m.Beat.Quarter = 257 }, "quarter 257"},
		{"open", func(m *wirepb.LeaseBatch) { m.Beat.Open = 0 }, "0 open leases"},
		{"too many open", func(m *wirepb.LeaseBatch) { m.Beat.Open = 1 << 31 }, "open leases"},
		{"too many renewed", func(m *wirepb.LeaseBatch) {
			m.Beat.Open = MaxRenewed + 1
			m.Beat.Renewed = times(MaxRenewed+1, m.Beat.Renewed[0])
		}, "32769 renewed leases"},
		{"a beat and a part", func(m *wirepb.LeaseBatch) { m.Part = &wirepb.LeaseBeat{Parts: 2} }, "a beat and a part of one"},
		{"one part", func(m *wirepb.LeaseBatch) { m.Beat, m.Part = nil, &wirepb.LeaseBeat{Parts: 1} }, "part 0 of 1"},
		{"too many parts", func(m *wirepb.LeaseBatch) { m.Beat, m.Part = nil, &wirepb.LeaseBeat{Parts: 257} }, "part 0 of 257"},
		{"a part beyond", func(m *wirepb.LeaseBatch) { m.Beat, m.Part = nil, &wirepb.LeaseBeat{Part: 2, Parts: 2} }, "part 2 of 2"},
		{"renewed at nobody", func(m *wirepb.LeaseBatch) { m.Beat.Renewed[0].Worker = 0 }, "at no worker"},
		{"renewed place", func(m *wirepb.LeaseBatch) { m.Beat.Renewed[0].Worker = 3 }, "worker 3 of 1"},
	})
}

func TestDecodeRecordsIsStrict(t *testing.T) {
	far := uint64(math.MaxUint64)
	runSpoils(t, goodState, stateCodec, []spoil[*wirepb.Records]{
		{"no worker", func(m *wirepb.Records) { m.Records[0].Worker = nil }, "id has 0 bytes"},
		{"short worker", func(m *wirepb.Records) { m.Records[0].Worker = m.Records[0].Worker[1:] }, "id has 15 bytes"},
		{"zero worker", func(m *wirepb.Records) { m.Records[0].Worker = make([]byte, 16) }, "no worker"},
		{"no keeper", func(m *wirepb.Records) { m.Records[0].Keeper = 0 }, "no keeper"},
		{"age of the breaker", func(m *wirepb.Records) { m.Records[0].BreakerAgeUs = &far }, "an age of"},
		{"ranks", func(m *wirepb.Records) {
			m.Records[0].Report = &wirepb.Report{Ranks: times(MaxList+1, &wirepb.Rank{})}
		}, "a report of 4097 ranks"},
		{"age of the report", func(m *wirepb.Records) { m.Records[0].Report = &wirepb.Report{AgeUs: far} }, "an age of"},
	})
}

func TestDecodeBeatIsStrict(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	runSpoils(t, goodBeat, beatCodec, []spoil[*wirepb.Beat]{
		{"no replica", func(m *wirepb.Beat) { m.Replica = 0 }, "no replica"},
		{"no leg", func(m *wirepb.Beat) { m.Leg = 0 }, "unknown leg 0"},
		{"newer leg", func(m *wirepb.Beat) { m.Leg = 9 }, "unknown leg 9"},
		{"build", func(m *wirepb.Beat) { m.Build = long }, "the build has 257"},
		{"versions", func(m *wirepb.Beat) { m.Versions = times(MaxList+1, uint32(1)) }, "4097 versions"},
		{"policies", func(m *wirepb.Beat) { m.Policies = times(MaxList+1, m.Policies[0]) }, "4097 policies"},
		{"policy without a name", func(m *wirepb.Beat) { m.Policies[0].Name = "" }, "no name"},
		{"name of a policy", func(m *wirepb.Beat) { m.Policies[0].Name = long }, "name has 257"},
		{"models", func(m *wirepb.Beat) { m.Models = times(MaxList+1, "m") }, "4097 models"},
		{"model without a name", func(m *wirepb.Beat) { m.Models = []string{""} }, "models is empty"},
		{"name of a model", func(m *wirepb.Beat) { m.Models = []string{strings.Repeat("x", MaxString+1)} }, "has 4097 bytes"},
	})
}

func TestDecodeSnapshotIsStrict(t *testing.T) {
	runSpoils(t, func() *wirepb.Snapshot { return &wirepb.Snapshot{Asker: 1} }, snapCodec, []spoil[*wirepb.Snapshot]{
		{"no asker", func(m *wirepb.Snapshot) { m.Asker = 0 }, "from nobody"},
	})
}

func TestDecodeSpecIsStrict(t *testing.T) {
	long := strings.Repeat("x", MaxString+1)
	labels := map[string]string{}
	for i := range MaxList + 1 {
		labels[fmt.Sprint(i)] = ""
	}
	runSpoils(t, goodSpec, specCodec, []spoil[*wirepb.Worker]{
		{"no id", func(m *wirepb.Worker) { m.Id = nil }, "id has 0 bytes"},
		{"zero id", func(m *wirepb.Worker) { m.Id = make([]byte, 16) }, "no id"},
		{"no URL", func(m *wirepb.Worker) { m.Url = "" }, "no URL"},
		{"long URL", func(m *wirepb.Worker) { m.Url = long }, "URL has 4097"},
		{"no leg", func(m *wirepb.Worker) { m.Leg = 0 }, "unknown leg 0"},
		{"newer leg", func(m *wirepb.Worker) { m.Leg = 9 }, "unknown leg 9"},
		{"no mode", func(m *wirepb.Worker) { m.Mode = 0 }, "mode 0"},
		{"newer mode", func(m *wirepb.Worker) { m.Mode = 3 }, "mode 3"},
		{"runtime", func(m *wirepb.Worker) { m.Runtime = long }, "runtime has 4097"},
		{"port", func(m *wirepb.Worker) { m.BootstrapPort = 65536 }, "port 65536"},
		{"bootstrap host", func(m *wirepb.Worker) { m.BootstrapHost = long }, "bootstrap host has"},
		{"bootstrap source", func(m *wirepb.Worker) { m.BootstrapSource = long }, "bootstrap source has"},
		{"conflict", func(m *wirepb.Worker) { m.Conflict = strings.Repeat("x", MaxString+1) }, "conflict has"},
		{"NaN", func(m *wirepb.Worker) { m.Cost = math.NaN() }, "cost is NaN"},
		{"infinity", func(m *wirepb.Worker) { m.Cost = math.Inf(-1) }, "cost is -Inf"},
		{"waiting requests", func(m *wirepb.Worker) { m.OverloadWaiting = 1 << 63 }, "limit of 9223372036854775808 waiting"},
		{"negative token usage", func(m *wirepb.Worker) { m.OverloadTokenUsage = -0.5 }, "token usage -0.5"},
		{"token usage", func(m *wirepb.Worker) { m.OverloadTokenUsage = 1.5 }, "token usage 1.5"},
		{"token usage that is no number", func(m *wirepb.Worker) { m.OverloadTokenUsage = math.NaN() }, "token usage NaN"},
		{"load interval", func(m *wirepb.Worker) { m.LoadIntervalUs = 1 << 63 }, "load interval of 9223372036854775808 µs"},
		{"sealed key", func(m *wirepb.Worker) { m.SealedKey = make([]byte, MaxString+1) }, "sealed key has 4097"},
		{"probe limit", func(m *wirepb.Worker) { m.Health = &wirepb.HealthRules{TimeoutUs: 1 << 63} }, "a rule of 9223372036854775808 µs"},
		{"drain", func(m *wirepb.Worker) { m.Health = &wirepb.HealthRules{SettleUs: new(uint64(1 << 63))} }, "a rule of 9223372036854775808 µs"},
		{"success threshold", func(m *wirepb.Worker) { m.Health = &wirepb.HealthRules{SuccessThreshold: 1 << 31} }, "success threshold of 2147483648"},
		{"breaker threshold", func(m *wirepb.Worker) { m.Breaker = &wirepb.BreakerRules{FailureThreshold: 1 << 31} }, "breaker's failure threshold of 2147483648"},
		{"status", func(m *wirepb.Worker) {
			m.Breaker = &wirepb.BreakerRules{FailureStatuses: &wirepb.Statuses{Codes: []uint32{99}}}
		}, "status 99"},
		{"statuses", func(m *wirepb.Worker) {
			m.Breaker = &wirepb.BreakerRules{CapacityStatuses: &wirepb.Statuses{Codes: times(MaxList+1, uint32(429))}}
		}, "4097 statuses"},
		{"idle connections", func(m *wirepb.Worker) { m.Pool = &wirepb.PoolRules{MaxIdle: new(uint32(1 << 31))} }, "idle connections of 2147483648"},
		{"models", func(m *wirepb.Worker) { m.Models = times(MaxList+1, &wirepb.Model{Id: "m"}) }, "4097 models"},
		{"model without an id", func(m *wirepb.Worker) { m.Models = []*wirepb.Model{{}} }, "no id"},
		{"model with a long id", func(m *wirepb.Worker) { m.Models = []*wirepb.Model{{Id: long}} }, "id has 4097"},
		{"empty alias", func(m *wirepb.Worker) { m.Models = []*wirepb.Model{{Id: "m", Aliases: []string{""}}} }, "aliases is empty"},
		{"KV connector", func(m *wirepb.Worker) { m.KvConnector = long }, "KV connector has"},
		{"KV role", func(m *wirepb.Worker) { m.KvRole = long }, "KV role has"},
		{"KV engine id", func(m *wirepb.Worker) { m.KvEngineId = long }, "KV engine id has"},
		{"base URL", func(m *wirepb.Worker) { m.BaseUrl = long }, "base URL has"},
		{"media", func(m *wirepb.Worker) { m.Media = []string{""} }, "types of media is empty"},
		{"ranks", func(m *wirepb.Worker) { m.DpSize = 1 << 31 }, "2147483648 data-parallel ranks"},
		{"rank", func(m *wirepb.Worker) { m.DpSize, m.DpRank = 2, 2 }, "rank 2 of 2"},
		{"labels", func(m *wirepb.Worker) { m.Labels = labels }, "4097 labels"},
		{"long label", func(m *wirepb.Worker) { m.Labels = map[string]string{long: ""} }, "label's name has"},
		{"long value", func(m *wirepb.Worker) { m.Labels = map[string]string{"": long} }, "label's value has"},
	})
}

func TestDecodeSelectIsStrict(t *testing.T) {
	long := make([]byte, maxClip+1)
	runSpoils(t, goodSelect, askCodec, []spoil[*wirepb.Select]{
		{"no incarnation", func(m *wirepb.Select) { m.Incarnation = 0 }, "incarnation is 0"},
		{"no plan", func(m *wirepb.Select) { m.Plan = 0 }, "plan number is 0"},
		{"no leg", func(m *wirepb.Select) { m.Leg = 0 }, "unknown leg 0"},
		{"newer leg", func(m *wirepb.Select) { m.Leg = 5 }, "unknown leg 5"},
		{"item", func(m *wirepb.Select) { m.Item = 1 << 16 }, "item 65536"},
		{"model", func(m *wirepb.Select) { m.Model = long }, "the model has 4100"},
		{"target", func(m *wirepb.Select) { m.Target = long }, "the target has 4100"},
		{"short key", func(m *wirepb.Select) { m.HeaderKey.Sum = m.HeaderKey.Sum[1:] }, "key has 15 bytes"},
		{"tokens", func(m *wirepb.Select) { m.Tokens = 1 << 63 }, "tokens"},
		{"tenant", func(m *wirepb.Select) { m.Tenant = long }, "the tenant has 4100"},
		{"wait", func(m *wirepb.Select) { m.WaitUs = 1 << 63 }, "a wait of"},
		{"units", func(m *wirepb.Select) { m.Units = 1 << 31 }, "2147483648 units"},
		{"class", func(m *wirepb.Select) { m.Compat = &wirepb.Class{Connector: strings.Repeat("x", MaxName+1)} }, "connector has 257"},
		{"group", func(m *wirepb.Select) { m.Groups = []string{strings.Repeat("g", MaxString+1)} }, "one of the groups has"},
		{"torn id", func(m *wirepb.Select) { m.Skip = long[:17] }, "have 17 bytes"},
		{"zero id", func(m *wirepb.Select) { m.Skip = long[:16] }, "without an id"},
		{"too many to skip", func(m *wirepb.Select) {
			id := testID(1)
			m.Skip = bytes.Repeat(id[:], MaxList+1)
		}, "4097 workers to skip"},
	})
}

func TestDecodeReplyIsStrict(t *testing.T) {
	long := strings.Repeat("x", MaxString+1)
	refusal := func(m *wirepb.Reply, message string) {
		m.Pick, m.Error = nil, &wirepb.Error{Code: wirepb.ErrorCode_ERROR_CODE_INTERNAL, Message: message}
	}
	runSpoils(t, goodReply, replyCodec, []spoil[*wirepb.Reply]{
		{"no incarnation", func(m *wirepb.Reply) { m.Incarnation = 0 }, "incarnation is 0"},
		{"no plan", func(m *wirepb.Reply) { m.Plan = 0 }, "plan number is 0"},
		{"newer leg", func(m *wirepb.Reply) { m.Leg = 5 }, "unknown leg 5"},
		{"item", func(m *wirepb.Reply) { m.Item = 1 << 16 }, "item 65536"},
		{"no replica", func(m *wirepb.Reply) { m.Replica = 0 }, "no replica"},
		{"nothing", func(m *wirepb.Reply) { m.Pick = nil }, "neither a pick nor an error"},
		{"both", func(m *wirepb.Reply) { m.Error = &wirepb.Error{} }, "both a pick and an error"},
		{"long error", func(m *wirepb.Reply) { refusal(m, long) }, "the error has 4097"},
		{"queued and picked", func(m *wirepb.Reply) { m.Queued = true }, "it waits and is an answer"},
		{"classes", func(m *wirepb.Reply) {
			refusal(m, "")
			m.Error.Classes = []*wirepb.Class{{Group: long}}
		}, "the group has 4097"},
		{"matched", func(m *wirepb.Reply) { m.Pick.Matched = 1 << 63 }, "tokens that match"},
		{"sealed key", func(m *wirepb.Reply) { m.Pick.SealedKey = make([]byte, MaxString+1) }, "sealed key has 4097"},
		{"request limit", func(m *wirepb.Reply) { m.Pick.Pool = &wirepb.PoolRules{TimeoutUs: 1 << 63} }, "a rule of 9223372036854775808 µs"},
		{"breaker threshold", func(m *wirepb.Reply) { m.Pick.Breaker = &wirepb.BreakerRules{FailureThreshold: 1 << 31} }, "failure threshold of 2147483648"},
		{"pair group", func(m *wirepb.Reply) { m.Pick.PairGroup = long }, "pair group has"},
		{"rank", func(m *wirepb.Reply) { m.Pick.DpRank = 1 }, "rank 1 of 0"},
		{"no worker", func(m *wirepb.Reply) { m.Pick.Worker = nil }, "id has 0 bytes"},
		{"zero worker", func(m *wirepb.Reply) { m.Pick.Worker = make([]byte, 16) }, "no id"},
		{"no URL", func(m *wirepb.Reply) { m.Pick.Url = "" }, "no URL"},
		{"long URL", func(m *wirepb.Reply) { m.Pick.Url = long }, "the URL has 4097"},
		{"worker of a newer leg", func(m *wirepb.Reply) { m.Pick.Leg = 5 }, "unknown leg 5"},
		{"worker of a newer mode", func(m *wirepb.Reply) { m.Pick.Mode = 3 }, "mode 3"},
		{"runtime", func(m *wirepb.Reply) { m.Pick.Runtime = long }, "the runtime has"},
		{"model", func(m *wirepb.Reply) { m.Pick.Model = long }, "the model has"},
		{"host", func(m *wirepb.Reply) { m.Pick.BootstrapHost = long }, "the bootstrap host has"},
		{"port", func(m *wirepb.Reply) { m.Pick.BootstrapPort = 65536 }, "port 65536"},
		{"policy", func(m *wirepb.Reply) { m.Pick.Policy = long }, "the policy has"},
		{"branch", func(m *wirepb.Reply) { m.Pick.Branch = long }, "the branch has"},
	})
}

func TestDecodePinIsStrict(t *testing.T) {
	runSpoils(t, goodPin, pinCodec, []spoil[*wirepb.Pin]{
		{"no worker", func(m *wirepb.Pin) { m.Workers = nil }, "ids of 0 bytes"},
		{"torn worker", func(m *wirepb.Pin) { m.Workers = m.Workers[:31] }, "ids of 31 bytes"},
		{"three workers", func(m *wirepb.Pin) { m.Workers = times(48, byte(1)) }, "ids of 48 bytes"},
		{"zero worker", func(m *wirepb.Pin) { clear(m.Workers[16:]) }, "without an id"},
		{"one worker twice", func(m *wirepb.Pin) { copy(m.Workers[16:], m.Workers) }, "a worker twice"},
		{"no replica", func(m *wirepb.Pin) { m.Replica = 0 }, "from no replica"},
	})
}

// Encoders turn down what decoders would.
func TestEncodersAreStrict(t *testing.T) {
	id := testID(1)
	start := func(l worker.Lease) *worker.Batch {
		return &worker.Batch{Ingress: "i", Incarnation: 1, Leg: worker.Decode, Seq: 1, Entries: []worker.Entry{{Lease: l}}}
	}
	lease := func(incarnation, plan uint64, leg worker.Leg) worker.LeaseID {
		return worker.LeaseID{Incarnation: incarnation, Plan: plan, Leg: leg}
	}
	good := worker.Lease{ID: lease(1, 1, worker.Decode), Worker: id}
	newer := start(good)
	newer.Entries[0].Kind = 4
	outcome := start(good)
	outcome.Entries[0].Outcome = 3
	leg := start(good)
	leg.Leg = 4
	negative := start(good)
	negative.Beat = &worker.Beat{Open: -1}
	many := &worker.Spec{ID: id, URL: "u", Labels: map[string]string{}}
	for i := range 400 {
		many.Labels[fmt.Sprint(i)] = strings.Repeat("x", MaxString)
	}
	for _, tt := range []struct {
		name  string
		codec codec
		value any
		want  string
	}{
		{"lease of another incarnation", batchCodec, start(worker.Lease{ID: lease(2, 1, worker.Decode), Worker: id}), "another incarnation or leg"},
		{"lease of another leg", batchCodec, start(worker.Lease{ID: lease(1, 1, worker.Encode), Worker: id}), "another incarnation or leg"},
		{"negative tokens", batchCodec, start(worker.Lease{ID: lease(1, 1, worker.Decode), Worker: id, Tokens: -1}), "-1 tokens"},
		{"unknown kind", batchCodec, newer, "unknown kind 4"},
		{"unknown outcome", batchCodec, outcome, "unknown outcome 3"},
		{"unknown leg", batchCodec, leg, "unknown leg(4)"},
		{"negative open", batchCodec, negative, "-1 open"},
		{"unknown status", stateCodec, &Records{{Worker: id, Keeper: 1, Status: 5}}, "unknown status(5)"},
		{"unknown breaker", stateCodec, &Records{{Worker: id, Keeper: 1, Breaker: 3}}, "unknown breaker state 3"},
		{"too many records", stateCodec, tooManyRecords(), "1025 records"},
		{"negative age", stateCodec, &Records{{Worker: id, Keeper: 1, Report: &Report{Age: -1}}}, "a report of age"},
		{"unknown leg of a beat", beatCodec, &Beat{Replica: 1, Leg: 4}, "unknown leg(4)"},
		{"unknown reads", beatCodec, &Beat{Replica: 1, Policies: []PolicyUse{{Name: "p", Reads: 1<<8 | ReadsKey}}}, "key,reads(256)"},
		{"unknown leg of a worker", specCodec, &worker.Spec{ID: id, URL: "u", Leg: 4}, "unknown leg(4)"},
		{"unknown mode", specCodec, &worker.Spec{ID: id, URL: "u", Mode: 2}, "unknown connection mode 2"},
		{"negative overload limit", specCodec, &worker.Spec{ID: id, URL: "u", Overload: worker.OverloadLimits{Waiting: -1}}, "limit of -1 waiting"},
		{"negative load interval", specCodec, &worker.Spec{ID: id, URL: "u", LoadInterval: -1}, "load interval of -1ns"},
		{"negative drain", specCodec, &worker.Spec{ID: id, URL: "u", Health: &worker.HealthRules{Settle: new(-time.Second)}}, "a drain of -1s"},
		{"connect limit too fine", specCodec, &worker.Spec{ID: id, URL: "u", Pool: &worker.PoolRules{ConnectTimeout: 1}}, "connect limit of 1ns"},
		{"drains at an odd moment", specCodec, &worker.Spec{ID: id, URL: "u", DrainingSince: time.Unix(0, 1)}, "draining since"},
		{"load interval too fine", specCodec, &worker.Spec{ID: id, URL: "u", LoadInterval: time.Second + 1}, "load interval of 1.000000001s"},
		{"no UTF-8", specCodec, &worker.Spec{ID: id, URL: "\xff"}, "UTF-8"},
		{"far from now", specCodec, &worker.Spec{ID: id, URL: "u", RegisteredAt: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)}, "registered in 3000"},
		{"pin of no key", pinCodec, &worker.Pin{Workers: [2]worker.ID{id}, Replica: 1}, "of no key"},
		{"pin of no worker", pinCodec, &worker.Pin{Key: testPinKey, Workers: [2]worker.ID{{}, id}, Replica: 1}, "names no worker"},
		{"pin of no replica", pinCodec, &worker.Pin{Key: testPinKey, Workers: [2]worker.ID{id}}, "from no replica"},
		{"select of no plan", askCodec, &Select{Lease: worker.LeaseID{Incarnation: 1}}, "plan number is 0"},
		{"select of an unknown leg", askCodec, &Select{Lease: lease(1, 1, 4)}, "unknown leg(4)"},
		{"select of negative characters", askCodec, &Select{Lease: lease(1, 1, 0), Chars: -1}, "-1 characters"},
		{"select of a long text", askCodec, &Select{Lease: lease(1, 1, 0), Text: strings.Repeat("x", MaxText+1)}, "a text of 262145 bytes"},
		{"select of many token ids", askCodec, &Select{Lease: lease(1, 1, 0), TokenIDs: make([]uint32, MaxTokenIDs+1), Tokens: 1 << 20}, "65537 token ids"},
		{"select of more token ids than tokens", askCodec, &Select{Lease: lease(1, 1, 0), TokenIDs: make([]uint32, 2), Tokens: 1}, "2 token ids of 1"},
		{"report of no number", stateCodec, &Records{{Worker: id, Keeper: 1, Report: &Report{Load: worker.Report{KVUsage: math.NaN()}}}}, "no report has"},
		{"pick of negative tokens", replyCodec, &Reply{Lease: lease(1, 1, 0), Replica: 1, Pick: Pick{Worker: &worker.Spec{ID: id, URL: "u"}, Tokens: -1}}, "-1 tokens"},
		{"select of negative tokens", askCodec, &Select{Lease: lease(1, 1, 0), Tokens: -1}, "-1 tokens"},
		{"select that waits back", askCodec, &Select{Lease: lease(1, 1, 0), Wait: -1}, "a wait of -1ns"},
		{"select of negative units", askCodec, &Select{Lease: lease(1, 1, 0), Units: -1}, "-1 units"},
		{"select of a far priority", askCodec, &Select{Lease: lease(1, 1, 0), Priority: 1 << 40}, "priority 1099511627776"},
		{"negative units", batchCodec, start(worker.Lease{ID: lease(1, 1, worker.Decode), Worker: id, Units: -1}), "-1 units"},
		{"negative rank", specCodec, &worker.Spec{ID: id, URL: "u", DPSize: 2, DPRank: -1}, "rank -1 of 2"},
		{"empty reply", replyCodec, &Reply{Lease: lease(1, 1, 0), Replica: 1}, "neither"},
		{"double reply", replyCodec, &Reply{Lease: lease(1, 1, 0), Replica: 1, Err: &Error{}, Pick: Pick{Worker: many}}, "both"},
		{"reply with an unknown code", replyCodec, &Reply{Lease: lease(1, 1, 0), Replica: 1, Err: &Error{Code: 11}}, "unknown code(11)"},
		{"reply with an unknown mode", replyCodec, &Reply{
			Lease: lease(1, 1, 0), Replica: 1, Pick: Pick{Worker: &worker.Spec{ID: id, URL: "u", Mode: 2}},
		}, "unknown connection mode 2"},
		{"loads for nobody", askLoads, &LoadsAsk{}, "from nobody"},
		{"loads of nobody", loadsCodec, &Loads{Replica: 1, Workers: []worker.Loads{{Ranks: []worker.RankLoad{{}}}}}, "of no worker"},
		{"loads of no rank", loadsCodec, &Loads{Replica: 1, Workers: []worker.Loads{{Worker: id}}}, "of no rank"},
		{"snapshot for nobody", snapCodec, &Snapshot{}, "from nobody"},
		{"too large", specCodec, many, "bytes are more than 1048576"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := []byte("before")
			got, err := tt.codec.append(before, tt.value)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ... %s ...", err, tt.want)
			}
			if !bytes.Equal(got, before) {
				t.Errorf("left %q in the buffer", got)
			}
		})
	}
}

func TestTooLargeMessage(t *testing.T) {
	for _, c := range []codec{batchCodec, stateCodec, beatCodec, specCodec, askCodec, replyCodec, snapCodec, pinCodec} {
		if _, err := c.decode(make([]byte, MaxMessage+1)); !errors.Is(err, ErrMalformed) {
			t.Errorf("got %v, want %v", err, ErrMalformed)
		}
	}
}

// What a newer program adds is ignored, and what it says differently is absent.
func TestNewerMessages(t *testing.T) {
	entry := func(kind wirepb.EntryKind, outcome wirepb.Outcome) *wirepb.LeaseEntry {
		return &wirepb.LeaseEntry{Kind: kind, Plan: 1, Worker: 1, Outcome: outcome}
	}
	batch := goodBatch()
	batch.Beat = nil
	batch.Entries = []*wirepb.LeaseEntry{
		entry(99, 0),
		entry(0, 0),
		entry(wirepb.EntryKind_ENTRY_KIND_END, 99),
	}
	lease := worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: 1, Leg: worker.Decode}, Worker: testID(1)}
	state := goodState()
	state.Records[0].Status, state.Records[0].Breaker = 99, -3
	beat := goodBeat()
	beat.Policies[0].Reads = []wirepb.Reads{99, wirepb.Reads_READS_TEXT, -1}
	refused := goodReply()
	refused.Pick, refused.Error = nil, &wirepb.Error{Code: 99, Message: "m"}
	for _, tt := range []struct {
		name  string
		codec codec
		data  []byte
		want  any
	}{
		{"reply", replyCodec, mustMarshal(t, refused), &Reply{
			Lease: lease.ID, Replica: 1, Err: &Error{Code: CodeInternal, Message: "m"},
		}},
		{"leases", batchCodec, mustMarshal(t, batch), &worker.Batch{
			Ingress: "i", Incarnation: 1, Leg: worker.Decode, Seq: 1,
			Entries: []worker.Entry{{Kind: worker.EntryEnd, Lease: lease}},
		}},
		{"state", stateCodec, mustMarshal(t, state), &Records{{Worker: testID(1), Keeper: 1, BreakerAge: -1}}},
		{"beat", beatCodec, mustMarshal(t, beat), &Beat{
			Replica: 1, Leg: worker.Decode, Policies: []PolicyUse{{Name: "p", Reads: ReadsText}},
		}},
		{"pin", pinCodec, mustMarshal(t, goodPin()), &worker.Pin{Key: testPinKey, Workers: [2]worker.ID{testID(1), testID(2)}, Replica: 1}},
		{"worker", specCodec, mustMarshal(t, goodSpec()), &worker.Spec{ID: testID(1), URL: "http://a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := protowire.AppendTag(tt.data, 1000, protowire.BytesType)
			data = protowire.AppendString(data, "new")
			got, err := tt.codec.decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func tooManyRecords() *Records {
	r := make(Records, MaxRecords+1)
	return &r
}

// TestLargeBeatsFit: what a writer takes for a message fits into one.
func TestLargeBeatsFit(t *testing.T) {
	b := &worker.Batch{Ingress: "gw-0", Incarnation: 1 << 60, Leg: worker.Decode, Seq: 1 << 40, Beat: &worker.Beat{Open: 1 << 20, Parts: 60}}
	for i := range worker.PartLeases * 11 / 10 { // hashes are not fair
		l := testLease(1<<40+uint64(i), worker.Decode, worker.IDOf(strconv.Itoa(i%10_000)), 1<<20)
		l.ID.Incarnation, l.Key = b.Incarnation, 1<<63
		b.Beat.Renewed = append(b.Beat.Renewed, l)
	}
	if _, err := AppendBatch(nil, b); err != nil {
		t.Error(err)
	}
}
