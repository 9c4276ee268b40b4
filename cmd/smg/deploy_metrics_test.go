package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"smg/e2e/manifest"
)

// metric is one of docs/metrics.md.
type metric struct {
	kind   string
	labels []string
}

// series are the metrics of docs/metrics.md by the names that queries have for them.
func series(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]metric{}
	row := regexp.MustCompile("(?m)^\\| `(smg_\\w+)` \\| (\\w+) \\| ([^|]*) \\|")
	label := regexp.MustCompile("`(\\w+)`")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		labels := []string{"instance", "job"}
		for _, l := range label.FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		switch m[2] {
		case "histogram":
			all[m[1]+"_bucket"] = metric{m[2], append(slices.Clone(labels), "le")}
			all[m[1]+"_sum"], all[m[1]+"_count"] = metric{m[2], labels}, metric{m[2], labels}
		case "summary":
			all[m[1]] = metric{m[2], append(slices.Clone(labels), "quantile")}
			all[m[1]+"_sum"], all[m[1]+"_count"] = metric{m[2], labels}, metric{m[2], labels}
		default:
			all[m[1]] = metric{m[2], labels}
		}
	}
	all["up"] = metric{"gauge", []string{"job", "instance"}}
	return all
}

var (
	asked    = regexp.MustCompile(`\b(smg_\w+|up)\b(\{[^}]*\})?(\[)?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
	rates    = regexp.MustCompile(`\b(?:rate|increase)\((\w+)`)
	shownBy  = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// faults are what a query asks for that no gateway has. texts are shown with the result.
func faults(known map[string]metric, expr string, texts ...string) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	var labels, left []string // of any metric, and what is left of them
	found := asked.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		add("there is no metric in it")
	}
	for _, m := range found {
		s, ok := known[m[1]]
		if !ok {
			add("there is no metric %s", m[1])
		}
		labels = append(labels, s.labels...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if ok && !slices.Contains(s.labels, l[1]) {
				add("%s has no label %s", m[1], l[1])
			}
		}
	}
	for _, m := range rates.FindAllStringSubmatch(expr, -1) {
		if kind := known[m[1]].kind; kind == "gauge" || kind == "summary" && !strings.Contains(m[1], "_sum") && !strings.Contains(m[1], "_count") {
			add("%s is a %s, which has no rate", m[1], kind)
		}
	}
	by := grouping.FindAllStringSubmatch(expr, -1)
	for _, m := range by {
		for l := range strings.SplitSeq(m[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(labels, l) {
				add("no metric of it has a label %s", l)
			}
			left = append(left, strings.TrimSpace(l))
		}
	}
	if len(by) == 0 && !strings.Contains(expr, "sum(") && !strings.Contains(expr, "count(") {
		left = labels
	}
	for _, text := range texts {
		for _, m := range shownBy.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(left, m[1]) {
				add("the result has no label %s, which is shown", m[1])
			}
		}
	}
	return all
}

// TestDeployDashboard holds the dashboard's queries to docs/metrics.md, which other tests
// hold to the programs.
func TestDeployDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deployed, "grafana", "smg.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	known, used, ids := series(t), map[string]bool{}, map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("panel %d is there twice", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, q := range p.Targets {
			for _, f := range faults(known, q.Expr, q.LegendFormat) {
				t.Errorf("%s: %s: %s", p.Title, q.Expr, f)
			}
			for _, m := range asked.FindAllStringSubmatch(q.Expr, -1) {
				used[m[1]] = true
			}
		}
	}
	if len(used) < 30 {
		t.Errorf("only %d metrics are shown: %v", len(used), slices.Sorted(maps.Keys(used)))
	}
	of := regexp.MustCompile(`label_values\((\w+), (\w+)\)`)
	for _, v := range board.Templating.List {
		query, ok := v.Query.(map[string]any)
		if !ok {
			continue // a kind of data source
		}
		m := of.FindStringSubmatch(fmt.Sprint(query["query"]))
		if m == nil || !slices.Contains(known[m[1]].labels, m[2]) {
			t.Errorf("variable %s: %v", v.Name, query)
		}
	}
}

// TestDeployAlerts holds alerts to docs/metrics.md likewise.
func TestDeployAlerts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deployed, "prometheus", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := manifest.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	known, names := series(t), map[string]bool{}
	for _, group := range manifest.List(docs[0], "groups") {
		for _, rule := range manifest.List(group, "rules") {
			name, expr := manifest.Text(rule, "alert"), manifest.Text(rule, "expr")
			if name == "" || names[name] {
				t.Errorf("alert %q", name)
			}
			names[name] = true
			for _, f := range faults(known, expr, manifest.Text(rule, "annotations", "summary")) {
				t.Errorf("%s: %s: %s", name, expr, f)
			}
			if s := manifest.Text(rule, "labels", "severity"); s != "page" && s != "warn" {
				t.Errorf("%s has severity %q", name, s)
			}
			if strings.Count(expr, "(") != strings.Count(expr, ")") {
				t.Errorf("%s: %s: parentheses", name, expr)
			}
		}
	}
	if len(names) < 10 {
		t.Errorf("alerts: %v", names)
	}
	scrape, err := os.ReadFile(filepath.Join(deployed, "prometheus", "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := manifest.Parse(string(scrape))
	if err != nil {
		t.Fatal(err)
	}
	if job := manifest.Text(manifest.List(cfg[0], "scrape_configs")[0], "job_name"); job != "smg" {
		t.Errorf("the job is %q, alerts ask for smg", job)
	}
}

// TestFaultsOfQueries sees that wrong queries do not pass.
func TestFaultsOfQueries(t *testing.T) {
	known := series(t)
	for _, expr := range []string{
		"smg_no_such_total", `smg_worker_health{model="m"}`, "rate(smg_worker_health[5m])", "sum by (policy) (rate(smg_http_requests_total[5m]))",
		"smg_http_request_duration_seconds", "vector(1)",
	} {
		if len(faults(known, expr)) == 0 {
			t.Errorf("%s passes", expr)
		}
	}
	if len(faults(known, "sum by (path) (rate(smg_http_requests_total[5m]))", "{{method}}")) == 0 {
		t.Error("a label that is not left passes")
	}
}
