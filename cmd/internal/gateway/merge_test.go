package gateway

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parsed is a page of metrics.
func parsed(t *testing.T, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPagesAreAddedUp(t *testing.T) {
	tests := []struct{ name, a, b, want string }{
		{
			name: "counters", a: "# TYPE c counter\nc{x=\"1\",y=\"2\"} 3\n", b: "# TYPE c counter\nc{y=\"2\",x=\"1\"} 4\nc{x=\"2\",y=\"2\"} 5\n",
			want: "# TYPE c counter\nc{x=\"1\",y=\"2\"} 7\nc{x=\"2\",y=\"2\"} 5\n",
		},
		{name: "gauges", a: "# TYPE g gauge\ng 3\n", b: "# TYPE g gauge\ng -1\n", want: "# TYPE g gauge\ng 2\n"},
		{
			name: "histograms",
			a:    "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 3\nh_sum 10\nh_count 3\n",
			b:    "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 2\n",
			want: "# TYPE h histogram\nh_bucket{le=\"1\"} 3\nh_bucket{le=\"+Inf\"} 5\nh_sum 11\nh_count 5\n",
		},
		{
			name: "summaries",
			a:    "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 10\ns_count 3\n",
			b:    "# TYPE s summary\ns{quantile=\"0.5\"} 2\ns_sum 1\ns_count 2\n",
			want: "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 11\ns_count 5\n",
		},
		{name: "labels that differ", a: "# TYPE c counter\nc{x=\"1\"} 3\n", b: "# TYPE c counter\nc{y=\"1\"} 4\n", want: "# TYPE c counter\nc{x=\"1\"} 3\nc{y=\"1\"} 4\n"},
		{name: "only one", b: "# TYPE c counter\nc 4\n", want: "# TYPE c counter\nc 4\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sum := parsed(t, tt.a)
			for name, f := range parsed(t, tt.b) {
				sum[name] = add(sum[name], f)
			}
			var out bytes.Buffer
			for _, f := range sum {
				if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMetricsOfAProcessNameIt(t *testing.T) {
	f := parsed(t, "# TYPE go_info gauge\ngo_info{version=\"go1\",abc=\"x\"} 1\n")["go_info"]
	mark(f, "selector prefill")
	var out bytes.Buffer
	if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
		t.Fatal(err)
	}
	if want := "go_info{abc=\"x\",service=\"selector prefill\",version=\"go1\"} 1\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %s, want %s", &out, want)
	}
	if ofProcess("smg_worker_health") || !ofProcess("go_goroutines") || !ofProcess("process_open_fds") {
		t.Error("metrics of the process are taken for others")
	}
}
