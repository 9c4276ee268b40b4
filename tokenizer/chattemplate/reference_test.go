package chattemplate_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"smg/tokenizer/jinja"
)

// recorded is a folder with what jinja2 has made of the models' templates.
var recorded = flag.String("recorded", "testdata", "folder of models.json.gz")

// now is the time at which the reference was recorded.
var now = time.Date(2026, 7, 4, 9, 5, 7, 0, time.UTC)

// TestReference holds templates in the manner of public models to what jinja2 makes of
// them, for every conversation: the same text, or the same refusal.
func TestReference(t *testing.T) {
	var file struct {
		Cases []struct {
			Name      string
			Variables map[string]json.RawMessage
		}
		Models map[string][]struct {
			Text, Raised *string
			Failed       string
		}
	}
	f, err := os.Open(filepath.Join(*recorded, "models.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&file); err != nil {
		t.Fatal(err)
	}
	values := make([]map[string]jinja.Value, len(file.Cases))
	for i, c := range file.Cases {
		values[i] = map[string]jinja.Value{}
		for name, text := range c.Variables {
			if values[i][name], err = jinja.FromJSON(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(file.Models) < 15 {
		t.Fatalf("only %d models", len(file.Models))
	}
	models := make([]string, 0, len(file.Models))
	for m := range file.Models {
		models = append(models, m)
	}
	slices.Sort(models)
	for _, model := range models {
		t.Run(model, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("testdata", "models", model+".jinja"))
			if err != nil {
				t.Fatal(err)
			}
			tmpl, err := jinja.Parse(model, string(source))
			if err != nil {
				t.Fatal(err)
			}
			texts := 0
			for i, want := range file.Models[model] {
				got, err := tmpl.Render(t.Context(), jinja.Run{Values: values[i], Limits: jinja.DefaultLimits(), Now: now})
				var e *jinja.Error
				raised := errors.As(err, &e) && e.Raised
				name := file.Cases[i].Name
				switch {
				case want.Text != nil:
					texts++
					if err != nil || got != *want.Text {
						t.Errorf("%s: error %v\n got %q\nwant %q", name, err, got, *want.Text)
					}
				case want.Raised != nil:
					if !raised || e.Message != *want.Raised {
						t.Errorf("%s: got %q, %v\nwant it to raise %q", name, got, err, *want.Raised)
					}
				case err == nil || raised:
					t.Errorf("%s: got %q, %v\nwant it to fail: %s", name, got, err, want.Failed)
				}
			}
			if texts < 10 {
				t.Errorf("only %d conversations gave a text", texts)
			}
		})
	}
}
