package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"

	"smg/bench/procstat"
	"smg/stats"
	"smg/study"
)

// measurement is what one run of one policy on one site gave.
type measurement struct {
	study.Summary                      // in the engines' time
	late, ttft    []time.Duration      // of the generator, and to the first token: real, ascending
	degraded      int                  // answers chosen without a selector
	firstFault    error                // of those that failed
	length        time.Duration        // of the run
	cpu           [parts]time.Duration // of the processes of each kind
	own           time.Duration        // of the generator
	commands      []string
}

// void says whether the generator was too late for the times at quantile q to mean
// anything: by more than a fifth of them.
func (m *measurement) void(q float64) bool {
	return stats.Quantile(m.late, q) > stats.Quantile(m.ttft, q)/5
}

// busy is the part of all CPUs that everything here used together.
func (m *measurement) busy() float64 {
	sum := m.own
	for _, d := range m.cpu {
		sum += d
	}
	return sum.Seconds() / m.length.Seconds() / float64(runtime.NumCPU())
}

// String is a line of progress.
func (m *measurement) String() string {
	return fmt.Sprintf("%.0f s, hits %.3f, TTFT p50 %.3f s, p99 %.3f s, %d failed, %d degraded, late p99 %v, CPUs %.0f %% busy", m.length.Seconds(),
		m.Hits, m.P50.Seconds(), m.P99.Seconds(), m.Failed, m.degraded, stats.Quantile(m.late, 0.99).Round(time.Millisecond), 100*m.busy())
}

// answerWithin bounds a single exchange.
const answerWithin = 5 * time.Minute

// measure runs the work once, on a site that is started for it.
func measure(ctx context.Context, o *options, w *work, s site, policy string, seed uint64) (_ *measurement, err error) {
	st, err := newStand(ctx, o, s, policy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	transport := &http.Transport{MaxIdleConnsPerHost: len(w.Requests), DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: answerWithin}
	if err := st.settle(ctx, client); err != nil {
		return nil, err
	}
	before, err := st.spent()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	done, err := replay(ctx, client, w.shots(o, st.targets(), seed))
	if err != nil {
		return nil, err
	}
	m := &measurement{length: time.Since(begin), commands: st.commands}
	after, err := st.spent()
	if err != nil {
		return nil, err
	}
	m.own = after.all.Used(before.all)
	for kind := range after.parts {
		for i, r := range after.parts[kind] {
			m.cpu[kind] += r.Used(before.parts[kind][i])
		}
		m.own -= m.cpu[kind]
	}
	m.count(o, w, st.workers, done)
	return m, nil
}

// count reduces the exchanges to figures.
func (m *measurement) count(o *options, w *work, workers []string, done []exchange) {
	r := &study.Result{Engine: o.site().Engine, Workers: len(workers), Outcomes: make([]study.Outcome, len(done))}
	for i, x := range done {
		r.Outcomes[i] = study.Outcome{
			Worker: slices.Index(workers, x.worker), TTFT: o.virtual(x.ttft), Latency: o.virtual(x.latency), Cached: x.cached, Err: x.err,
		}
		if x.err != nil {
			if m.firstFault == nil {
				m.firstFault = x.err
			}
			continue
		}
		m.ttft = append(m.ttft, x.ttft)
		m.late = append(m.late, x.late)
		if x.degraded {
			m.degraded++
		}
	}
	slices.Sort(m.ttft)
	slices.Sort(m.late)
	m.Summary = study.DefaultMeasure().Summarize(w.Workload, r)
}

// spent is what all processes had used of CPUs at a moment.
type spent struct {
	parts [parts][]procstat.Reading
	all   procstat.Reading // with this process
}

func (st *stand) spent() (spent, error) {
	byPart, err := st.read()
	if err != nil {
		return spent{}, err
	}
	all, err := procstat.System().Read(os.Getpid())
	return spent{parts: byPart, all: all}, err
}

const (
	settleWithin = 30 * time.Second
	settleEvery  = 100 * time.Millisecond
)

// settle returns once every ingress has an answer for a prompt that fills no block,
// from a worker that a selector has chosen: who is ready may not know all yet that it
// asks.
func (st *stand) settle(ctx context.Context, client *http.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleWithin, fmt.Errorf("an ingress chose without a selector for %s", settleWithin))
	defer cancel()
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	body := []byte(`{"model":"` + model + `","prompt":"x","max_tokens":1,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`)
	for _, target := range st.targets() {
		for {
			var x exchange
			err := x.run(ctx, client, &shot{url: target, body: body, prompt: 1, output: 1}, time.Now())
			if err == nil && !x.degraded {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return errors.Join(context.Cause(ctx), err)
			}
		}
	}
	return nil
}
