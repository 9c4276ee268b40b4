package jinja_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"smg/tokenizer/jinja"
)

// recorded is a folder with what jinja2 has made of other templates (make templates-diff).
var recorded = flag.String("recorded", "testdata", "folder of snippets.json.gz")

// now is the time at which the reference was recorded.
var now = time.Date(2026, 7, 4, 9, 5, 7, 0, time.UTC)

type outcome struct {
	Text   *string
	Raised *string
	Failed string
}

// TestReference holds the package to what jinja2 makes of the same templates: the same
// text, the same refusal, or an error too.
func TestReference(t *testing.T) {
	var file struct {
		Variables map[string]json.RawMessage
		Snippets  []struct {
			Source string
			outcome
		}
	}
	read(t, filepath.Join(*recorded, "snippets.json.gz"), &file)
	values := map[string]jinja.Value{}
	for name, text := range file.Variables {
		v, err := jinja.FromJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		values[name] = v
	}
	wrong := 0
	for _, s := range file.Snippets {
		got, err := render(t, s.Source, values)
		if why := s.differs(got, err); why != "" {
			if wrong++; wrong <= 40 {
				t.Errorf("%q:\n%s", s.Source, why)
			}
		}
	}
	t.Logf("%d of %d differ", wrong, len(file.Snippets))
}

func (o outcome) differs(got string, err error) string {
	var e *jinja.Error
	raised := errors.As(err, &e) && e.Raised
	switch {
	case o.Text != nil && err != nil && strings.HasSuffix(e.Message, "object cannot be sliced"):
		// Of constants, which jinja2 works out beforehand, it makes something undefined.
		// Of everything else it fails too.
		return ""
	case o.Text != nil && err != nil:
		return "failed: " + err.Error() + "\nwant " + quoted(*o.Text)
	case o.Text != nil && got != *o.Text:
		return " got " + quoted(got) + "\nwant " + quoted(*o.Text)
	case o.Raised != nil && (!raised || e.Message != *o.Raised):
		return "got " + quoted(got) + ", error " + errText(err) + "\nwant it raised: " + *o.Raised
	case o.Text == nil && o.Raised == nil && (err == nil || raised):
		return "got " + quoted(got) + ", error " + errText(err) + "\nwant it to fail: " + o.Failed
	}
	return ""
}

func errText(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func render(t testing.TB, source string, values map[string]jinja.Value) (string, error) {
	t.Helper()
	tmpl, err := jinja.Parse("snippet", source)
	if err != nil {
		return "", err
	}
	return tmpl.Render(t.Context(), jinja.Run{Values: values, Limits: jinja.DefaultLimits(), Now: now})
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(into); err != nil {
		t.Fatal(err)
	}
}
