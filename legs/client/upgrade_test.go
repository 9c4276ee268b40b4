package client

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protowire"

	"smg/bus"
	"smg/bus/bustest"
	"smg/legs"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// message is one that was said on the bus.
type message struct {
	subject string
	data    []byte
}

// recording is what the first version whose services were processes of their own said
// on the bus: an ingress and a selector for each leg, from their start until some
// requests were answered. Programs that say it so may run beside newer ones for ever.
type recording struct {
	file   string
	policy string
	legs   []worker.Leg

	said        []message
	incarnation uint64
	replicas    map[worker.Leg]worker.ReplicaID
	asks        []*wire.Select
	replies     map[worker.LeaseID]message
}

func recordings(t *testing.T) []*recording {
	t.Helper()
	all := []*recording{
		{file: "first-keyed.txt", policy: hashing, legs: []worker.Leg{worker.Regular}},
		{file: "first-pd.txt", policy: policy.RoundRobin, legs: []worker.Leg{worker.Prefill, worker.Decode}},
	}
	for _, r := range all {
		r.read(t)
	}
	return all
}

// read reads the recording's file: a line for each message, its subject and its bytes.
func (r *recording) read(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", r.file))
	if err != nil {
		t.Fatal(err)
	}
	r.replicas, r.replies = map[worker.Leg]worker.ReplicaID{}, map[worker.LeaseID]message{}
	for line := range strings.Lines(string(text)) {
		subject, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		data, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		m := message{subject, data}
		r.said = append(r.said, m)
		switch {
		case m.is("select"):
			ask, err := wire.DecodeSelect(data)
			if err != nil {
				t.Fatal(err)
			}
			r.asks, r.replicas[ask.Lease.Leg] = append(r.asks, ask), worker.ReplicaID(m.number(t))
		case m.is("replies"):
			reply, err := wire.DecodeReply(data)
			if err != nil {
				t.Fatal(err)
			}
			r.replies[reply.Lease], r.incarnation = m, m.number(t)
		}
	}
	if len(r.asks) != 12*len(r.legs) || len(r.replies) != len(r.asks) || len(r.replicas) != len(r.legs) {
		t.Fatalf("%s has %d selects, %d replies and %d replicas", r.file, len(r.asks), len(r.replies), len(r.replicas))
	}
}

// of are the messages of a kind.
func (r *recording) of(kind string) (all []message) {
	for _, m := range r.said {
		if m.is(kind) {
			all = append(all, m)
		}
	}
	return all
}

// ready are the beats of replicas that are ready.
func (r *recording) ready(t *testing.T) []message {
	t.Helper()
	return slices.DeleteFunc(r.of("beat"), func(m message) bool {
		b, err := wire.DecodeBeat(m.data)
		if err != nil {
			t.Fatal(err)
		}
		return !b.Ready || b.Draining
	})
}

// is says whether a message is of a kind, a word of its subject; "$KV" is a record of a
// worker.
func (m *message) is(kind string) bool {
	return slices.Contains(strings.Split(m.subject, "."), kind)
}

// number is the last word of the message's subject.
func (m *message) number(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(m.subject[strings.LastIndexByte(m.subject, '.')+1:], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// raw is a subject whose messages are bytes.
func raw(subject string) wire.Topic[[]byte] {
	return wire.Topic[[]byte]{
		Kind: "raw", Subject: subject,
		Append: func(buf []byte, v *[]byte) ([]byte, error) { return append(buf, *v...), nil },
		Decode: func(data []byte) (*[]byte, error) { return new(slices.Clone(data)), nil },
	}
}

func say(t *testing.T, c *bus.Conn, all ...message) {
	t.Helper()
	for _, m := range all {
		if err := bus.Publish(c, raw(m.subject), &m.data); err != nil {
			t.Fatal(err)
		}
	}
}

// recorded is the cluster of the recordings.
func recorded(t *testing.T) wire.Cluster {
	t.Helper()
	c, err := wire.ParseCluster("default")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newer is a message as a later version may send it: with fields that nobody knows yet,
// in the message and in the one in a field of it, if that is not 0, and with fields set
// anew there.
func newer(data []byte, inside protowire.Number, set ...byte) []byte {
	const unknown = 1000
	data = protowire.AppendTag(slices.Clone(data), unknown, protowire.BytesType)
	data = protowire.AppendString(data, "what nobody knows")
	if inside == 0 {
		return data
	}
	data = protowire.AppendTag(data, inside, protowire.BytesType) // is merged with the one before
	return protowire.AppendBytes(data, protowire.AppendVarint(protowire.AppendTag(set, unknown+1, protowire.VarintType), 1))
}

// enum is a field with a value that nobody knows.
func enum(field protowire.Number) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), 999)
}

// Fields of messages.
const (
	selectHeaderKey       = 7
	replyPick, replyError = 6, 7
	pickMode, errorCode   = 4, 1
)

// TestAnOlderSelector picks for an ingress of today, which hears of workers, selectors
// and records as they were recorded.
func TestAnOlderSelector(t *testing.T) {
	failed := func(code []byte) func([]byte) []byte {
		return func(data []byte) []byte { // the reply's own fields, and an error in place of the pick
			reply, err := wire.DecodeReply(data)
			if err != nil {
				t.Fatal(err)
			}
			reply.Pick, reply.Err = wire.Pick{}, &wire.Error{Code: wire.CodeNoAvailableWorkers, Message: "why"}
			data, err = wire.AppendReply(nil, reply)
			if err != nil {
				t.Fatal(err)
			}
			return newer(data, replyError, code...)
		}
	}
	tests := []struct {
		name   string
		change func([]byte) []byte // of a reply
		want   string              // "picked", "degraded", or what the error says
	}{
		{"as recorded", slices.Clone[[]byte], "picked"},
		{"with fields that nobody knows", func(data []byte) []byte { return newer(data, replyPick) }, "picked"},
		{"a worker of a kind that nobody can speak to", func(data []byte) []byte { return newer(data, replyPick, enum(pickMode)...) }, "degraded"},
		{"an error", failed(nil), "why"},
		{"an error that nobody knows", failed(enum(errorCode)), "why"},
	}
	for _, r := range recordings(t) {
		for _, tt := range tests {
			t.Run(r.file+"/"+tt.name, func(t *testing.T) {
				conn, cluster := bustest.Start(t), recorded(t)
				c, err := New(Config{
					Cluster: cluster, Name: "i", Incarnation: r.incarnation, Legs: r.legs, PlanTimeout: 100 * time.Millisecond,
				}, Deps{
					Bus: conn, Workers: bus.NewBucket(conn, cluster.Workers()), Log: slog.New(slog.DiscardHandler),
					Registerer: prometheus.NewRegistry(), Now: time.Now,
				})
				if err != nil {
					t.Fatal(err)
				}
				if tt.want != "degraded" {
					c.cfg.PlanTimeout = time.Hour
				}
				c.late = c.cfg.PlanTimeout
				run(t, c.Run)
				<-c.Joined()
				r.answer(t, conn, tt.change)
				say(t, conn, r.of("beat")...)
				bustest.Await(t, "readiness", func() bool {
					say(t, conn, slices.Concat(r.of("$KV"), r.of("state"), r.ready(t))...)
					ready, healthy, total := c.Readiness()
					return ready && healthy == 2 && total == 2
				})
				for _, ask := range r.asks {
					say(t, conn, r.ready(t)...)
					pick, err := c.Select(t.Context(), &wire.Select{Lease: ask.Lease, Model: ask.Model, Keys: ask.Keys})
					got := "picked"
					switch {
					case err != nil:
						got = err.Error()
					case pick.Degraded:
						got = "degraded"
					}
					if got != tt.want {
						t.Fatalf("%v: %s, want %s", ask.Lease, got, tt.want)
					}
					if got != "picked" {
						continue
					}
					was, err := wire.DecodeReply(r.replies[ask.Lease].data)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(was.Pick, pick); diff != "" {
						t.Errorf("picked (-recorded +got):\n%s", diff)
					}
					if w := pick.Worker; w.Leg == worker.Prefill && w.BootstrapPort != 14811 {
						t.Errorf("prefill is met at %d", w.BootstrapPort)
					}
					if n := c.Active(pick.Worker.ID); n != 1 {
						t.Errorf("%d calls in flight, want 1", n)
					}
					c.End(ask.Lease, worker.Success, false)
				}
			})
		}
	}
}

// answer has the selectors of a recording answer the selects of an ingress as they did.
func (r *recording) answer(t *testing.T, conn *bus.Conn, change func([]byte) []byte) {
	t.Helper()
	var subs bus.Subscriptions
	for leg, id := range r.replicas {
		bus.Join(&subs, conn, recorded(t).Select(leg, id).Topic, func(ask *wire.Select) {
			m := r.replies[ask.Lease]
			data := change(m.data)
			if err := bus.Publish(conn, raw(m.subject), &data); err != nil {
				t.Error(err)
			}
		})
	}
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := subs.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestAnOlderIngress is answered by selectors of today, and its leases are counted,
// all as they were recorded and with fields that nobody knows.
func TestAnOlderIngress(t *testing.T) {
	for _, r := range recordings(t) {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/later=%v", r.file, later), func(t *testing.T) {
				conn, cluster := bustest.Start(t), recorded(t)
				counts := prometheus.NewRegistry()
				for leg, id := range r.replicas {
					s, err := legs.New(legs.Config{
						Cluster: cluster, Leg: leg, Replica: id, Build: "test", Policy: policyConfig(r.policy), Keeper: worker.DefaultKeeperConfig(), Endpoint: "/health",
					}, legs.Deps{
						Bus: conn, Prober: wellProber{}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
						Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"of": leg.String()}, counts),
					})
					if err != nil {
						t.Fatal(err)
					}
					run(t, s.Run)
				}
				as := func(all []message, inside protowire.Number) []message {
					if !later {
						return all
					}
					all = slices.Clone(all)
					for i := range all {
						all[i].data = newer(all[i].data, inside)
					}
					return all
				}
				key := protowire.Number(0)
				if r.policy == hashing {
					key = selectHeaderKey
				}
				var mu sync.Mutex
				replies := map[worker.LeaseID]*wire.Reply{}
				sub, err := bus.Subscribe(conn, cluster.Replies(r.incarnation), func(reply *wire.Reply) {
					mu.Lock()
					defer mu.Unlock()
					replies[reply.Lease] = reply
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := sub.Stop(); err != nil {
						t.Error(err)
					}
				})
				// The leases alone, up to the message after which most are open: no select has
				// granted anything.
				batches := r.of("leases")
				bustest.Await(t, "the workers to be chosen", func() bool {
					say(t, conn, r.of("$KV")...)
					probe := *r.asks[0]
					probe.Lease.Plan = 1 << 40
					ok := true
					for _, leg := range r.legs {
						probe.Lease.Leg = leg
						if err := bus.Request(conn, cluster.Select(leg, r.replicas[leg]), &probe, cluster.Replies(r.incarnation)); err != nil {
							t.Error(err)
						}
						mu.Lock()
						got := replies[probe.Lease]
						ok = ok && got != nil && got.Err == nil
						mu.Unlock()
					}
					return ok
				})
				bustest.Await(t, "the grants of that to fall", func() bool { n, err := counted(counts); return err == nil && n == 0 })
				until, open := mostOpen(t, batches)
				if open == 0 {
					t.Fatal("no lease is ever open")
				}
				say(t, conn, as(batches[:until], 0)...)
				bustest.Await(t, fmt.Sprintf("%d leases to be counted", open), func() bool { n, err := counted(counts); return err == nil && n == open })
				say(t, conn, as(batches[until:], 0)...)
				bustest.Await(t, "their ends", func() bool { n, err := counted(counts); return err == nil && n == 0 })

				for _, m := range as(r.of("select"), key) {
					service := wire.Service[[]byte, wire.Reply]{Topic: raw(m.subject)}
					if err := bus.Request(conn, service, &m.data, cluster.Replies(r.incarnation)); err != nil {
						t.Fatal(err)
					}
				}
				bustest.Await(t, "answers", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(replies) == len(r.legs)+len(r.asks)
				})
				for id, m := range r.replies {
					was, err := wire.DecodeReply(m.data)
					if err != nil {
						t.Fatal(err)
					}
					got := replies[id]
					if got.Err != nil || got.Replica != was.Replica {
						t.Errorf("%v: answered %+v, want that of %d", id, got, was.Replica)
						continue
					}
					got.Pick.Epoch, got.Pick.Tokens = 0, 0 // which were not told then
					// Keys stay where they are while selectors are upgraded.
					if diff := cmp.Diff(was.Pick, got.Pick); diff != "" && r.policy == hashing {
						t.Errorf("%v (-recorded +got):\n%s", id, diff)
					}
				}
			})
		}
	}
}

func policyConfig(name string) policy.Config {
	cfg := policy.DefaultConfig()
	cfg.Policy = name
	return cfg
}

// mostOpen is after how many batches most leases are open, and how many.
func mostOpen(t *testing.T, batches []message) (until, open int) {
	t.Helper()
	now := map[worker.LeaseID]bool{}
	for i, m := range batches {
		b, err := wire.DecodeBatch(m.data)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Entries {
			switch e.Kind {
			case worker.EntryStart:
				now[e.Lease.ID] = true
			case worker.EntryEnd:
				delete(now, e.Lease.ID)
			case worker.EntryHead, worker.EntryWhole:
			}
		}
		if len(now) > open {
			until, open = i+1, len(now)
		}
	}
	return until, open
}
