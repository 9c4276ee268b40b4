package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"smg/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// prober answers well from a number of questions on.
type prober struct {
	mu    sync.Mutex
	goods map[string]int // questions that fail first
	asked map[string][]time.Time
	found Found
	err   error // of Discover
	// engines are the ranks' that Mooncake tells of at an address.
	engines map[string]map[int]string

	discovered int // calls of Discover
}

func (p *prober) Health(_ context.Context, s *worker.Spec, _ string) error {
	url := s.Base()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string][]time.Time{}
	}
	p.asked[url] = append(p.asked[url], time.Now())
	if len(p.asked[url]) <= p.goods[url] {
		return errors.New("connection refused")
	}
	return nil
}

func (p *prober) Discover(context.Context, *worker.Spec) (Found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discovered++
	return p.found, p.err
}

// becomes has Discover give other answers.
func (p *prober) becomes(f Found, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found, p.err = f, err
}

func (p *prober) MooncakeEngines(_ context.Context, url string) (map[int]string, error) {
	if e := p.engines[url]; e != nil {
		return e, nil
	}
	return nil, errors.New("nothing listens")
}

var errStore = errors.New("no bus")

// memory is a store that fails as often as told, and tells of itself after a lag.
type memory struct {
	mu    sync.Mutex
	fails int
	specs []*worker.Spec // as they were put
	now   map[worker.ID]*worker.Spec

	lag  time.Duration
	due  time.Time                     // when the last news are told
	hear func(worker.ID, *worker.Spec) // may be nil
}

func (m *memory) Put(_ context.Context, s *worker.Spec) error { return m.change(s.ID, s) }

func (m *memory) Delete(_ context.Context, id worker.ID) error { return m.change(id, nil) }

func (m *memory) Change(_ context.Context, id worker.ID, change func(*worker.Spec) (*worker.Spec, error)) error {
	m.mu.Lock()
	old := m.now[id]
	m.mu.Unlock()
	if old != nil {
		old = old.Clone()
	}
	s, err := change(old)
	if err != nil {
		return err
	}
	return m.change(id, s)
}

func (m *memory) change(id worker.ID, s *worker.Spec) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails > 0 {
		m.fails--
		return errStore
	}
	if m.now == nil {
		m.now = map[worker.ID]*worker.Spec{}
	}
	if s == nil {
		delete(m.now, id)
	} else {
		m.specs = append(m.specs, s)
		m.now[id] = s
	}
	if m.hear != nil {
		due := time.Now().Add(m.lag)
		if !due.After(m.due) {
			due = m.due.Add(time.Nanosecond) // in order
		}
		m.due = due
		time.AfterFunc(time.Until(due), func() { m.hear(id, s) })
	}
	return nil
}

// urls are those that are stored now.
func (m *memory) urls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var urls []string
	for _, s := range m.now {
		urls = append(urls, s.URL)
	}
	slices.Sort(urls)
	return urls
}

// conflicts are the URLs of those that are not to be chosen now.
func (m *memory) conflicts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var urls []string
	for _, s := range m.now {
		if s.Conflict != "" {
			urls = append(urls, s.URL)
		}
	}
	slices.Sort(urls)
	return urls
}

func registrar(t *testing.T, p Prober, s Store, change func(*Config)) *Registrar {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Workers = []Candidate{{URL: "http://w1:8000"}}
	if change != nil {
		change(&cfg)
	}
	r, err := NewRegistrar(cfg, p, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// long is enough for every worker that answers.
const long = 100 * time.Hour

// pass lets d of fake time pass, and all that happens in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// run runs a registrar for a time.
func run(t *testing.T, r *Registrar, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// running runs a registrar of no workers until stop is called, and has it hear what
// the store tells.
func running(t *testing.T, p *prober, m *memory, change func(*Config)) (r *Registrar, stop func()) {
	t.Helper()
	r = registrar(t, p, m, func(c *Config) {
		c.Workers = nil
		if change != nil {
			change(c)
		}
	})
	m.hear = r.Heard
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // one: Run's result
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		pass(m.lag) // the last news are told
	}
}

// asked is a worker as somebody asks for it.
func asked(t *testing.T, url string, change func(*worker.Spec)) *worker.Spec {
	t.Helper()
	s, err := SpecOf(url, worker.Regular)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prober{found: Found{Runtime: worker.SGLang, Models: []string{"m", "lora"}, Labels: map[string]string{"tp_size": "2"}}}
		m := &memory{}
		began := time.Now()
		r := registrar(t, p, m, func(c *Config) { c.Workers = []Candidate{{URL: "http://w1:8000/"}} })
		run(t, r, long)
		want := []*worker.Spec{{
			ID: worker.IDOf("http://w1:8000"), URL: "http://w1:8000", Runtime: worker.SGLang,
			Models: []worker.Model{{ID: "m"}, {ID: "lora"}}, Labels: map[string]string{"tp_size": "2"},
			Priority: 50, Cost: 1, BootstrapHost: "w1", BootstrapSource: "default", RegisteredAt: began,
		}}
		if diff := cmp.Diff(want, m.specs); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	})
}

func TestBootstrapHost(t *testing.T) {
	tests := []struct{ name, url, want string }{
		{"a name", "http://prefill-1:8000", "prefill-1"},
		{"an IPv4 address", "http://10.0.0.1:8000", "10.0.0.1"},
		{"an IPv6 address keeps its brackets", "http://[::1]:8000", "[::1]"},
		{"no port", "http://w", "w"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := specOf(Candidate{URL: tt.url, Leg: worker.Prefill})
			if err != nil {
				t.Fatal(err)
			}
			if s.BootstrapHost != tt.want || s.BootstrapPort != 0 {
				t.Errorf("bootstrap %s:%d, want %s:0", s.BootstrapHost, s.BootstrapPort, tt.want)
			}
		})
	}
}

func TestWorkersKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		urls := []string{"http://z:1", "http://m:1", "http://a:1"}
		p := &prober{goods: map[string]int{urls[0]: 2, urls[1]: 1}}
		m := &memory{}
		r := registrar(t, p, m, func(c *Config) {
			c.Workers = nil
			for _, u := range urls {
				c.Workers = append(c.Workers, Candidate{URL: u})
			}
		})
		run(t, r, long)
		if m.specs[0].URL != urls[2] {
			t.Errorf("%s was registered first, want the one that answered first", m.specs[0].URL)
		}
		byURL := map[string]*worker.Spec{}
		for _, s := range m.specs {
			byURL[s.URL] = s
		}
		for i := range len(urls) - 1 {
			if byURL[urls[i]].Compare(byURL[urls[i+1]]) >= 0 {
				t.Errorf("%s does not come before %s", urls[i], urls[i+1])
			}
		}
	})
}

func TestTries(t *testing.T) {
	tests := []struct {
		name   string
		bad    int // questions that fail
		fails  int // puts that fail
		change func(*Config)
		want   []time.Duration // when the worker was asked, from the start
	}{
		{name: "one that is up", want: []time.Duration{0}},
		{name: "one that comes up", bad: 2, want: []time.Duration{0, 30 * time.Second, time.Minute}},
		{name: "after the delay", change: func(c *Config) { c.Delay = 7 * time.Second }, want: []time.Duration{7 * time.Second}},
		{
			name: "given up on, but asked at the health interval", bad: 4,
			change: func(c *Config) { c.Timeout = 10 * time.Second; c.Interval = 4 * time.Second; c.Retry = time.Hour },
			want:   []time.Duration{0, 4 * time.Second, 8 * time.Second, 8*time.Second + time.Hour, 8*time.Second + 2*time.Hour},
		},
		{name: "a store that fails", fails: 1, want: []time.Duration{0, time.Second}},
		{name: "a store that goes on failing", fails: 3, want: []time.Duration{0, time.Second, 31 * time.Second, 61 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const url = "http://w1:8000"
				p := &prober{goods: map[string]int{url: tt.bad}}
				m := &memory{fails: tt.fails}
				r := registrar(t, p, m, tt.change)
				began := time.Now()
				run(t, r, long)
				var got []time.Duration
				for _, at := range p.asked[url] {
					got = append(got, at.Sub(began))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("asked at (-want +got):\n%s", diff)
				}
				if len(m.specs) != 1 {
					t.Errorf("%d records, want 1", len(m.specs))
				}
			})
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prober{goods: map[string]int{"http://w1:8000": 1 << 30}}
		m := &memory{}
		run(t, registrar(t, p, m, nil), long)
		if len(m.specs) != 0 {
			t.Errorf("a worker that never answered was registered")
		}
	})
}

func TestGateway(t *testing.T) {
	t.Run("38_disabled_checks_register_without_a_probe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &prober{goods: map[string]int{"http://w1:8000": 1 << 30}}
			m := &memory{}
			run(t, registrar(t, p, m, func(c *Config) { c.DisableHealth = true }), long)
			if len(m.specs) != 1 || len(p.asked) != 0 {
				t.Errorf("%d records after %d probes, want 1 after 0", len(m.specs), len(p.asked))
			}
		})
	})
}

func TestValidateReportsEveryFault(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Workers = []Candidate{{URL: "w1:8000"}, {URL: "http://w2:8000"}, {URL: "http://w2:8000/", Leg: worker.Decode}}
	cfg.Interval, cfg.Delay, cfg.Endpoint = 0, -1, "health"
	_, err := NewRegistrar(cfg, nil, nil, nil)
	for _, want := range []string{
		"http://w1:8000", "http://w2:8000 is given twice", "--worker-startup-check-interval", "--worker-startup-delay", "--health-check-endpoint",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not mention %q", err, want)
		}
	}
}
