package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// merged is one page of metrics for a process and its children: what they share is
// added up, name by name and label by label, so that a scrape shows what it would
// show if all of them were one process. What belongs to a process as such, its
// memory for one, carries the name of a child as label.
type merged struct {
	own    prometheus.Gatherer
	family *family
	log    *slog.Logger
}

// scrapeWait is how long a child may take for its page.
const scrapeWait = time.Second

// Gather implements [prometheus.Gatherer].
func (m merged) Gather() ([]*dto.MetricFamily, error) {
	own, err := m.own.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering the parent's metrics: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	children := m.family.all()
	pages := make([]map[string]*dto.MetricFamily, len(children))
	var wg sync.WaitGroup
	for i, c := range children {
		if !c.Alive() {
			continue // its metrics are missing, and smg_service_up says so
		}
		wg.Go(func() {
			page, err := m.page(ctx, c)
			if err != nil {
				m.log.Warn("metrics of a child process are missing", slog.String("service", c.Name()), slog.Any("error", err))
				return
			}
			pages[i] = page
		})
	}
	wg.Wait()
	all := map[string]*dto.MetricFamily{}
	for _, f := range own {
		all[f.GetName()] = f
	}
	for i, page := range pages {
		for name, f := range page {
			if ofProcess(name) {
				mark(f, children[i].Name())
			}
			all[name] = add(all[name], f)
		}
	}
	out := make([]*dto.MetricFamily, 0, len(all))
	for _, f := range all {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, nil
}

// page is what a child shows.
func (m merged) page(ctx context.Context, c *child) (page map[string]*dto.MetricFamily, err error) {
	err = fetch(ctx, m.family.client, c.page+"/metrics", func(resp *http.Response) error {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		page, err = parser.TextToMetricFamilies(resp.Body)
		return err
	})
	return page, err
}

// ofProcess says whether a metric is one of the process and not of what it does.
func ofProcess(name string) bool { return !strings.HasPrefix(name, "smg_") }

// mark gives every series the name of a child, in the place that order demands.
func mark(f *dto.MetricFamily, service string) {
	for _, m := range f.GetMetric() {
		m.Label = append(m.Label, &dto.LabelPair{Name: new("service"), Value: new(service)})
		sortLabels(m)
	}
}

func sortLabels(m *dto.Metric) {
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// add adds the series of f to those of sum, which may be nil, and returns sum.
func add(sum, f *dto.MetricFamily) *dto.MetricFamily {
	if sum == nil {
		return f
	}
	known := map[string]*dto.Metric{}
	for _, m := range sum.GetMetric() {
		known[labels(m)] = m
	}
	for _, m := range f.GetMetric() {
		if k := known[labels(m)]; k != nil {
			addSeries(k, m)
		} else {
			sum.Metric = append(sum.Metric, m)
		}
	}
	return sum
}

// labels are those of a series in one text, whatever their order.
func labels(m *dto.Metric) string {
	sortLabels(m)
	var s strings.Builder
	for _, l := range m.GetLabel() {
		fmt.Fprintf(&s, "%q=%q,", l.GetName(), l.GetValue())
	}
	return s.String()
}

// addSeries adds what can be added. Of a summary's quantiles the first one's stay.
func addSeries(sum, m *dto.Metric) {
	switch {
	case sum.Counter != nil && m.Counter != nil:
		sum.Counter.Value = new(sum.Counter.GetValue() + m.Counter.GetValue())
	case sum.Gauge != nil && m.Gauge != nil:
		sum.Gauge.Value = new(sum.Gauge.GetValue() + m.Gauge.GetValue())
	case sum.Untyped != nil && m.Untyped != nil:
		sum.Untyped.Value = new(sum.Untyped.GetValue() + m.Untyped.GetValue())
	case sum.Summary != nil && m.Summary != nil:
		sum.Summary.SampleCount = new(sum.Summary.GetSampleCount() + m.Summary.GetSampleCount())
		sum.Summary.SampleSum = new(sum.Summary.GetSampleSum() + m.Summary.GetSampleSum())
	case sum.Histogram != nil && m.Histogram != nil:
		addHistogram(sum.Histogram, m.Histogram)
	}
}

// addHistogram adds buckets with the same bounds, which histograms of one name have.
func addHistogram(sum, h *dto.Histogram) {
	sum.SampleCount = new(sum.GetSampleCount() + h.GetSampleCount())
	sum.SampleSum = new(sum.GetSampleSum() + h.GetSampleSum())
	counts := map[float64]uint64{}
	for _, b := range h.GetBucket() {
		counts[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	for _, b := range sum.GetBucket() {
		b.CumulativeCount = new(b.GetCumulativeCount() + counts[b.GetUpperBound()])
	}
}
