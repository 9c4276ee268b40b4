package gateway

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write metrics that come, go or have other labels into docs/metrics.md")

// helps are the sentences of the metrics that a registry knows.
func helps(reg *prometheus.Registry) map[string]string {
	all := map[string]string{}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		reg.Describe(descs)
	}()
	form := regexp.MustCompile(`fqName: "(smg_\w+)", help: "([^"]*)"`)
	for d := range descs {
		if m := form.FindStringSubmatch(d.String()); m != nil {
			all[m[1]] = m[2]
		}
	}
	return all
}

// rewrite brings the rows of docs/metrics.md to what is exported. A row that is there
// keeps its type and what it says, which is more than the metric's own sentence; a new one
// gets that sentence, and stands at the end of the first table.
func rewrite(t *testing.T, all map[string][]string, told map[string]string) {
	t.Helper()
	const file = "../../../docs/metrics.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page, rest, _ := strings.Cut(string(b), "\nWith `--topology split` alone")
	known := documented(t)
	row := func(name, kind, meaning string) string {
		labels := "–"
		if len(all[name]) > 0 {
			labels = "`" + strings.Join(all[name], "`, `") + "`"
		}
		return fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, kind, labels, meaning)
	}
	page = regexp.MustCompile("(?m)^\\| `(smg_\\w+)` \\| (\\w+) \\| [^|]* \\| (.*) \\|\n").ReplaceAllStringFunc(page, func(old string) string {
		cells := strings.Split(strings.TrimSuffix(old, " |\n"), " | ")
		name := strings.Trim(cells[0], "| `")
		labels, ok := all[name]
		switch {
		case !ok:
			return ""
		case slices.Equal(labels, known[name]):
			return old
		}
		return row(name, cells[1], strings.Join(cells[3:], " | "))
	})
	last := strings.LastIndex(page[:strings.Index(page, "\n\n`smg_engine_*`")+1], "\n") + 1
	fresh := ""
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if known[name] == nil && told[name] != "" {
			kind := "gauge"
			if strings.HasSuffix(name, "_total") {
				kind = "counter"
			}
			sentence := strings.TrimSuffix(told[name], ".")
			fresh += row(name, kind, strings.ToLower(sentence[:1])+sentence[1:])
		}
	}
	page = page[:last] + fresh + page[last:]
	if err := os.WriteFile(file, []byte(page+"\nWith `--topology split` alone"+rest), 0o644); err != nil {
		t.Fatal(err)
	}
}
