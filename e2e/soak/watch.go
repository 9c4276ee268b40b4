package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"smg/sim/simctl"
)

// sample is what the gateway has at a moment, all its processes together.
type sample struct {
	at         time.Time
	memory     float64 // resident, in MiB
	live       float64 // what the collectors of garbage last found in use, in MiB
	descr      float64 // open descriptors
	goroutines float64 // of the process that has the metrics
}

// watch takes a sample each interval until ctx ends.
func (s *site) watch(ctx context.Context, interval time.Duration) (all []sample) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return all
		case <-tick.C:
			if now, err := s.sample(); err == nil { // the end of the site shows at the end
				all = append(all, now)
			}
		}
	}
}

// sample takes one.
func (s *site) sample() (sample, error) {
	now := sample{at: time.Now()}
	page, err := s.page()
	if err != nil {
		return now, err
	}
	now.goroutines, now.live = page["go_goroutines"], page["go_gc_heap_live_bytes"]/(1<<20)
	for _, pid := range family(s.gateway.Process.Pid) {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		text, err := os.ReadFile(filepath.Join(dir, "statm"))
		if err != nil {
			continue // it has ended
		}
		if f := strings.Fields(string(text)); len(f) > 1 {
			pages, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				return now, fmt.Errorf("memory of process %d: %w", pid, err)
			}
			now.memory += pages * float64(os.Getpagesize()) / (1 << 20)
		}
		if list, err := os.ReadDir(filepath.Join(dir, "fd")); err == nil {
			now.descr += float64(len(list))
		}
	}
	return now, nil
}

// family is a process and all below it.
func family(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		if err != nil {
			continue
		}
		for _, name := range lists {
			text, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			for f := range strings.FieldsSeq(string(text)) {
				if child, err := strconv.Atoi(f); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

// page are the metrics of the gateway, summed over their labels.
func (s *site) page() (map[string]float64, error) {
	resp, err := s.client.Get(s.metrics)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer resp.Body.Close()
	values := map[string]float64{}
	sc := bufio.NewScanner(resp.Body)
	for sc.Scan() {
		line := sc.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:i], "{")
		if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			values[name] += v
		}
	}
	return values, sc.Err()
}

// rests waits until nothing is in flight and nothing held, and as few goroutines and
// descriptors are there as before.
func (s *site) rests(ctx context.Context, before sample) error {
	return s.until(ctx, "the site to be at rest", func() error {
		page, err := s.page()
		if err != nil {
			return err
		}
		for _, name := range []string{"smg_worker_requests_active", "smg_selector_requests_active", "smg_bootstrap_rooms_active"} {
			if page[name] != 0 {
				err = errors.Join(err, fmt.Errorf("%s is %v", name, page[name]))
			}
		}
		for _, e := range s.engines {
			l, lerr := simctl.NewClient(e, s.client).Ledger(ctx)
			if lerr == nil && !l.Idle() {
				lerr = fmt.Errorf("%s holds %+v", e, l)
			}
			err = errors.Join(err, lerr)
		}
		now, serr := s.sample()
		const slack = 10 // connections of the watcher, and of probes
		if now.goroutines > before.goroutines+slack || now.descr > before.descr+slack {
			serr = errors.Join(serr, fmt.Errorf("%v goroutines and %v descriptors, before the load %v and %v", now.goroutines, now.descr, before.goroutines, before.descr))
		}
		return errors.Join(err, serr)
	})
}

// grows says what has grown. What comes before a sixth of the samples is not looked at;
// of the rest the last third may be a tenth above the middle one, and, in a run of a
// quarter of an hour or more, what is in use may rise by one part in a hundred in ten
// minutes. Of each minute the least counts: that is what is kept, the rest is of requests
// which were running. Resident memory says less: it is that of the highest heap until then.
func grows(all []sample) error {
	settled := all[len(all)/6:]
	if len(settled) < 6 {
		return errors.New("too few samples to say whether anything grows")
	}
	third := len(settled) / 3
	middle, last := settled[third:2*third], settled[2*third:]
	var err error
	for what, of := range map[string]func(sample) float64{
		"memory":      func(s sample) float64 { return s.memory },
		"in use":      func(s sample) float64 { return s.live },
		"descriptors": func(s sample) float64 { return s.descr },
		"goroutines":  func(s sample) float64 { return s.goroutines },
	} {
		// Medians: a moment of many requests at once is no growth.
		m, l := median(middle, of), median(last, of)
		if l > m*1.1+10 {
			err = errors.Join(err, fmt.Errorf("%s have grown from %.1f to %.1f", what, m, l))
		}
	}
	if settled[len(settled)-1].at.Sub(settled[0].at) >= 12*time.Minute {
		least := leastOf(settled, time.Minute)
		if rise := slope(least) * 600 / median(least, func(s sample) float64 { return s.live }); rise > 0.01 {
			err = errors.Join(err, fmt.Errorf("memory in use rises by %.1f %% in ten minutes", rise*100))
		}
	}
	return err
}

// leastOf keeps of each interval the sample with the least in use.
func leastOf(all []sample, interval time.Duration) (least []sample) {
	var end time.Time
	for _, s := range all {
		switch last := len(least) - 1; {
		case last < 0 || !s.at.Before(end):
			least, end = append(least, s), s.at.Add(interval)
		case s.live < least[last].live:
			least[last] = s
		}
	}
	return least
}

func median(all []sample, of func(sample) float64) float64 {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// slope is by how many MiB what is in use rises in a second, by least squares.
func slope(all []sample) float64 {
	var n, x, y, xx, xy float64
	for _, s := range all {
		at := s.at.Sub(all[0].at).Seconds()
		n, x, y, xx, xy = n+1, x+at, y+s.live, xx+at*at, xy+at*s.live
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// report prints what happened.
func report(w io.Writer, l *load, all []sample) {
	for _, name := range slices.Sorted(maps.Keys(l.counts)) {
		fmt.Fprintf(w, "%8d  %s\n", l.counts[name], name)
	}
	fmt.Fprintf(w, "slowest answer %v\n", l.slow.Round(time.Millisecond))
	fmt.Fprintf(w, "%8s %12s %12s %12s %11s\n", "after", "memory MiB", "in use MiB", "descriptors", "goroutines")
	for i := 0; i < len(all); i += max(len(all)/12, 1) {
		s := all[i]
		fmt.Fprintf(w, "%8v %12.1f %12.2f %12.0f %11.0f\n", s.at.Sub(all[0].at).Round(time.Second), s.memory, s.live, s.descr, s.goroutines)
	}
}
