package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/wire"
	"smg/worker"
)

// disk is a file in memory that can be slow, or fail.
type disk struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	block  chan struct{} // nil, or closed once writes go on
	err    error
	closed bool
}

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	block := d.block
	d.mu.Unlock()
	if block != nil {
		<-block
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return 0, d.err
	}
	return d.buf.Write(p)
}

func (d *disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

// set makes writes wait for the channel that it returns, and fail with err then.
func (d *disk) set(err error) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.block, d.err = make(chan struct{}), err
	return d.block
}

var began = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func at(us int) time.Time { return began.Add(time.Duration(us) * time.Microsecond) }

var config = Config{Cluster: "default", Policy: "round_robin", Replica: 7, Build: "test"}

// recording runs a recorder over a disk while f tells it something.
func recording(t testing.TB, d *disk, path string, cfg Config, f func(r *Recorder)) (log string) {
	t.Helper()
	var out strings.Builder
	r, err := begin(d, path, cfg, slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return at(9_000_000) })
	if err != nil {
		t.Fatal(err)
	}
	r.out.began = began
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.Run(ctx) })
	f(r)
	cancel()
	wg.Wait()
	return out.String()
}

// lines reads a recording.
func lines(t *testing.T, data []byte) (Header, []Line) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var all []Line
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

func specOf(url string, models ...string) *worker.Spec {
	s := &worker.Spec{ID: worker.IDOf(url), URL: url}
	for _, m := range models {
		s.Models = append(s.Models, worker.Model{ID: m})
	}
	return s
}

func lease(plan uint64) worker.LeaseID { return worker.LeaseID{Incarnation: 5, Plan: plan} }

// story is what happens at a small site.
func story(r *Recorder) {
	a, b := specOf("http://a:1", "m"), specOf("http://b:1", "m", "n")
	ready := worker.Record{Status: worker.Ready}
	loaded := ready
	loaded.Report = &worker.Report{PolledAt: at(50), Waiting: 1, Queued: worker.NotReported, Running: 2, KVUsage: 0.5, Throughput: 10}
	r.Fleet([]*worker.Worker{{Spec: a, Record: ready}}, at(10))
	r.Fleet([]*worker.Worker{{Spec: a, Record: ready}}, at(20)) // nothing new
	key := worker.HashKey("session")
	r.Selected(&wire.Select{
		Lease: lease(1), Model: "alias", Keys: worker.Keys{Header: key, Pinned: key}, Target: "1",
		Text: strings.Repeat("x", 70), Chars: 100, Namespace: 9,
	}, "m", &wire.Pick{Worker: a, Policy: "round_robin", Tokens: 1024}, nil, at(30))
	r.Selected(&wire.Select{Lease: lease(2), TokenIDs: []uint32{1, 2, 3}, Tokens: 3, Skip: []worker.ID{a.ID}}, "",
		&wire.Pick{Worker: b, Policy: "bucket", Branch: "spill", Probe: true}, nil, at(40))
	r.Selected(&wire.Select{Lease: lease(3), Target: "two"}, "m", &wire.Pick{}, worker.ErrOverloaded, at(45))
	r.Leases(&worker.Batch{Entries: []worker.Entry{
		{Kind: worker.EntryStart, Lease: worker.Lease{ID: lease(1), Worker: a.ID, Tokens: 1024}},
		{Kind: worker.EntryHead, Lease: worker.Lease{ID: lease(2)}},
		{Kind: worker.EntryWhole, Lease: worker.Lease{ID: lease(4), Worker: worker.IDOf("http://unheard:1")}, Outcome: worker.Failure, Unreached: true},
	}}, at(60))
	r.Leases(&worker.Batch{Entries: []worker.Entry{{Kind: worker.EntryHead, Lease: worker.Lease{ID: lease(2)}}}}, at(65))
	r.Fleet([]*worker.Worker{{Spec: a, Record: loaded}, {Spec: b, Record: ready}}, at(70))
	r.Leases(&worker.Batch{Entries: []worker.Entry{{Kind: worker.EntryEnd, Lease: worker.Lease{ID: lease(1)}, Outcome: worker.Success}}}, at(80))
	r.Fleet([]*worker.Worker{{Spec: b, Record: ready}}, at(90))
}

func TestRecorder(t *testing.T) {
	text, _ := DigestText(nil, strings.Repeat("x", 70))
	ids := DigestIDs(nil, []uint32{1, 2, 3})
	l := func(plan uint64) Lease { return Lease{Incarnation: 5, Plan: plan} }
	idA, idB := worker.IDOf("http://a:1").String(), worker.IDOf("http://b:1").String()
	want := []Line{
		{At: 10, Worker: &Worker{Number: 1, ID: idA, URL: "http://a:1", Models: []string{"m"}, Status: "ready", Breaker: "closed"}},
		{At: 30, Select: &Select{
			Lease: l(1), Model: "m", Keys: Keys{Header: "k", Pinned: "k"}, Target: new(1), Chars: 100, Space: "s", Seen: 70, Text: text, Worker: 1, Credit: 1024,
		}},
		{At: 40, Worker: &Worker{Number: 2, ID: idB, URL: "http://b:1", Models: []string{"m", "n"}}},
		{At: 40, Select: &Select{Lease: l(2), Skip: 1, Tokens: 3, Seen: 3, IDs: ids, Worker: 2, Policy: "bucket", Branch: "spill", Probe: true}},
		{At: 45, Select: &Select{Lease: l(3), Model: "m", Target: new(-1), Error: "worker_overload_protection_shed"}},
		{At: 60, Begin: &Begin{Lease: l(1), Worker: 1, Tokens: 1024}},
		{At: 60, End: &End{Lease: l(4), Outcome: "failure", Unreached: true}},
		{At: 70, Load: &Load{Number: 1, Age: 20, Waiting: 1, Queued: -1, Running: 2, Throughput: 10, KVUsage: 0.5}},
		{At: 70, Worker: &Worker{Number: 2, ID: idB, URL: "http://b:1", Models: []string{"m", "n"}, Status: "ready", Breaker: "closed"}},
		{At: 80, End: &End{Lease: l(1), Outcome: "success"}},
		{At: 90, Worker: &Worker{Number: 1, ID: idA, Gone: true}},
		{At: 9_000_000, Close: &Close{Selects: 3}},
	}
	whole := config
	whole.Whole = true
	for _, tt := range []struct {
		name, path string
		cfg        Config
	}{{"plain", "x.jsonl", config}, {"compressed", "x.jsonl.gz", config}, {"whole prompts", "x", whole}} {
		t.Run(tt.name, func(t *testing.T) {
			d := &disk{}
			log := recording(t, d, tt.path, tt.cfg, story)
			if !d.closed || !strings.Contains(log, "recording complete") || !strings.Contains(log, "selects=3") {
				t.Errorf("closed %v, log:\n%s", d.closed, log)
			}
			header, got := lines(t, d.buf.Bytes())
			header.Began = time.Time{}
			wantHeader := Header{Version: 1, Leg: "regular", Policy: "round_robin", Cluster: "default", Replica: 7, Build: "test", Whole: tt.cfg.Whole}
			if diff := cmp.Diff(wantHeader, header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			s := got[1].Select
			if s == nil || s.Keys.Header == "" || s.Keys.Header != s.Keys.Pinned || s.Space == "" || s.Keys.Header == s.Space {
				t.Fatalf("keys: %+v", s)
			}
			s.Keys, s.Space = Keys{Header: "k", Pinned: "k"}, "s"
			if tt.cfg.Whole {
				if s.WholeText != strings.Repeat("x", 70) || !cmp.Equal(got[3].Select.WholeIDs, []uint32{1, 2, 3}) {
					t.Errorf("prompts %q, %v", s.WholeText, got[3].Select.WholeIDs)
				}
				s.WholeText, s.Text, got[3].Select.WholeIDs, got[3].Select.IDs = "", text, nil, ids
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingIsGivenAway: a recording shows neither prompts nor keys, nor the hashes of
// keys that travel on the bus, and other recordings' keys cannot be compared with its.
func TestNothingIsGivenAway(t *testing.T) {
	key := worker.HashKey("session")
	tell := func(r *Recorder) {
		r.Selected(&wire.Select{Lease: lease(1), Keys: worker.Keys{Header: key, Implicit: worker.HashKey("Bearer secret")}, Text: "the secret prompt", Target: "secret"},
			"m", &wire.Pick{}, errors.New("a secret reason"), at(1))
	}
	one, two := &disk{}, &disk{}
	recording(t, one, "x", config, tell)
	recording(t, two, "x", config, tell)
	if s := one.buf.String(); strings.Contains(s, "secret") || strings.Contains(s, fmt.Sprintf("%x", key.Sum[:8])) {
		t.Errorf("told:\n%s", s)
	}
	_, a := lines(t, one.buf.Bytes())
	_, b := lines(t, two.buf.Bytes())
	if a[0].Select.Keys.Header == b[0].Select.Keys.Header {
		t.Error("two recordings tell a key by the same hash")
	}
	if !bytes.Equal(a[0].Select.Text, b[0].Select.Text) {
		t.Error("two recordings tell a prompt by different digests")
	}
}

// TestASlowDiskDelaysNobody: whoever tells a recorder something goes on at once while
// nothing can be written; what is lost is counted, said once, and stands in the file.
func TestASlowDiskDelaysNobody(t *testing.T) {
	for _, tt := range []struct {
		name string
		ask  wire.Select
	}{
		{"many", wire.Select{Text: "short"}},
		{"large", wire.Select{Text: strings.Repeat("x", wire.MaxText)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // digests take longer than a stop may, under the race detector
				d := &disk{}
				const n = 6000
				log := recording(t, d, "x", config, func(r *Recorder) {
					block := d.set(nil)
					var wg sync.WaitGroup
					for g := range 4 {
						wg.Go(func() {
							for i := range n / 4 {
								ask := tt.ask
								ask.Lease = lease(uint64(g*n + i + 1))
								r.Selected(&ask, "m", &wire.Pick{}, worker.ErrUnavailable, at(i))
								r.Leases(&worker.Batch{Entries: []worker.Entry{{Kind: worker.EntryEnd, Lease: worker.Lease{ID: ask.Lease}}}}, at(i))
							}
						})
					}
					wg.Wait() // blocked, the test would end here
					close(block)
				})
				_, got := lines(t, d.buf.Bytes())
				selects, ends, lost := uint64(0), uint64(0), uint64(0)
				for _, l := range got {
					switch {
					case l.Select != nil:
						selects++
					case l.End != nil:
						ends++
					case l.Lost != nil:
						lost += l.Lost.Records
					}
				}
				last := got[len(got)-1].Close
				if last == nil || last.Selects != selects || last.Lost != lost || lost == 0 || selects+ends+lost != 2*n {
					t.Errorf("%d selects, %d ends, %d lost, want %d in all; last line %+v", selects, ends, lost, 2*n, last)
				}
				if n := strings.Count(log, "too slow"); n != 1 {
					t.Errorf("%d lines about what is lost:\n%s", n, log)
				}
			})
		})
	}
}

func TestAFullDiskEndsTheRecording(t *testing.T) {
	d := &disk{}
	log := recording(t, d, "x", config, func(r *Recorder) {
		close(d.set(errors.New("no space left on device")))
		for i := range 5000 { // more than is buffered
			r.Selected(&wire.Select{Lease: lease(uint64(i + 1)), Text: "some text"}, "m", &wire.Pick{}, worker.ErrUnavailable, at(i))
			r.Fleet(nil, at(i))
		}
	})
	if n := strings.Count(log, "recording stopped"); n != 1 || !strings.Contains(log, "no space left") || strings.Contains(log, "complete") {
		t.Errorf("log:\n%s", log)
	}
	if !d.closed {
		t.Error("the file is still open")
	}
}

func TestACrashCostsASecond(t *testing.T) {
	for _, path := range []string{"x", "x.gz"} {
		synctest.Test(t, func(t *testing.T) {
			d := &disk{}
			var before []byte
			recording(t, d, path, config, func(r *Recorder) {
				story(r)
				time.Sleep(2 * flushEvery)
				synctest.Wait()
				before = bytes.Clone(d.buf.Bytes())
			})
			r, err := NewReader(bytes.NewReader(before))
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; err == nil; n++ {
				_, err = r.Next()
			}
			if !errors.Is(err, ErrCut) || n != 12 {
				t.Errorf("%s: error %v after %d lines, want ErrCut after 11", path, err, n-1)
			}
		})
	}
}

func TestADiskThatHangsEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		var block chan struct{}
		start := time.Now()
		log := recording(t, d, "x", config, func(r *Recorder) {
			block = d.set(nil)
			story(r)
		})
		if waited := time.Since(start); waited != closeLimit || !strings.Contains(log, "cannot be completed") {
			t.Errorf("waited for %v, log:\n%s", waited, log)
		}
		close(block)
	})
}

func TestNoHeaderNoRecording(t *testing.T) {
	d := &disk{err: errors.New("read only")}
	if _, err := begin(d, "x.gz", config, slog.New(slog.DiscardHandler), time.Now); err == nil || !d.closed {
		t.Errorf("error %v, closed %v", err, d.closed)
	}
}

func BenchmarkSelected(b *testing.B) {
	for _, size := range []int{0, 8 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			r, err := begin(&disk{}, "x", config, slog.New(slog.DiscardHandler), time.Now)
			if err != nil {
				b.Fatal(err)
			}
			ask := wire.Select{Lease: lease(1), Text: strings.Repeat("x", size)}
			b.ReportAllocs()
			for b.Loop() {
				r.Selected(&ask, "m", &wire.Pick{}, worker.ErrUnavailable, began)
				e := <-r.queue
				r.release(&e)
			}
		})
	}
}

// TestFit tells who could be chosen, and of what kind the workers of legs are.
func TestFit(t *testing.T) {
	d := &disk{}
	a := specOf("http://a:1", "m")
	a.Leg, a.Runtime, a.Labels = worker.Decode, worker.VLLM, map[string]string{worker.GroupLabel: "blue"}
	fit := worker.Like(a.Class())
	recording(t, d, "r.decode.jsonl", config, func(r *Recorder) {
		r.Selected(&wire.Select{Lease: lease(1), Fit: fit}, "m", &wire.Pick{Worker: a}, nil, at(1))
		r.Selected(&wire.Select{Lease: lease(2)}, "m", &wire.Pick{Worker: a}, nil, at(2))
	})
	_, all := lines(t, d.buf.Bytes())
	var asked []*Fit
	for _, l := range all {
		if l.Worker != nil {
			if diff := cmp.Diff(&Fit{Runtime: "vllm", Connector: worker.NixlConnector, Group: "blue"}, l.Worker.Kind); diff != "" {
				t.Error(diff)
			}
		}
		if l.Select != nil {
			asked = append(asked, l.Select.Fit)
		}
	}
	if diff := cmp.Diff([]*Fit{{Runtime: "vllm", Connector: worker.NixlConnector, Groups: []string{"blue"}}, nil}, asked); diff != "" {
		t.Error(diff)
	}
}
