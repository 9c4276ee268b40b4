package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// ask posts a body and returns the answer's text: of a whole answer, or of a
// stream's pieces put together.
func ask(ctx context.Context, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(resp.Body)
		return "", fmt.Errorf("status %d: %s (%w)", resp.StatusCode, b, err)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return "", err
		}
		return textOf(b)
	}
	return streamed(resp.Body)
}

// streamed puts the pieces of an event stream together. /generate repeats the
// whole text in each event, the OpenAI routes send what is new.
func streamed(r io.Reader) (string, error) {
	var text strings.Builder
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	done := false
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		piece, err := textOf([]byte(data))
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(piece, text.String()) && text.Len() > 0 && strings.Contains(data, "meta_info") {
			text.Reset()
		}
		text.WriteString(piece)
	}
	if err := sc.Err(); err != nil {
		return "", err
	}
	if !done {
		return "", fmt.Errorf("the stream ended without [DONE] after %q", text.String())
	}
	return text.String(), nil
}

// textOf is the text of one answer or event.
func textOf(b []byte) (string, error) {
	var a struct {
		Text    *string
		Choices []struct {
			Text    string
			Message struct{ Content string }
			Delta   struct{ Content string }
		}
		Error json.RawMessage
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return "", fmt.Errorf("%w in %q", err, b)
	}
	if a.Error != nil {
		return "", fmt.Errorf("error %s", a.Error)
	}
	if a.Text != nil {
		return *a.Text, nil
	}
	var text strings.Builder
	for _, c := range a.Choices {
		text.WriteString(c.Text + c.Message.Content + c.Delta.Content)
	}
	return text.String(), nil
}

// prompts are the same question on every route.
var prompts = []struct{ path, body string }{
	{"/v1/chat/completions", `{"model":"sim","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Where is Käse made?"}],"temperature":0%s}`},
	{"/v1/completions", `{"model":"sim","prompt":"Once upon a time","temperature":0,"max_tokens":40%s}`},
	{"/generate", `{"text":"Once upon a time","sampling_params":{"temperature":0,"max_new_tokens":40}%s}`},
}

func TestSameTextThroughOneWorkerAndThroughFour(t *testing.T) {
	one := serve(t, 1, "--", "--time-scale", "0")
	four := serve(t, 4, "--", "--time-scale", "0")
	for _, p := range prompts {
		t.Run(strings.Trim(p.path, "/"), func(t *testing.T) {
			want, err := ask(t.Context(), one.engines[0]+p.path, fmt.Sprintf(p.body, ""))
			if err != nil {
				t.Fatal(err)
			}
			if len(want) < 10 {
				t.Fatalf("the engine's text %q is too short to compare", want)
			}
			for _, g := range []*gateway{one, four} {
				for _, stream := range []string{"", `,"stream":true`} {
					for range len(g.engines) + 1 {
						got, err := ask(t.Context(), g.url+p.path, fmt.Sprintf(p.body, stream))
						if err != nil {
							t.Fatal(err)
						}
						if got != want {
							t.Errorf("%d engines, stream %q: got %q, want %q", len(g.engines), stream, got, want)
						}
					}
				}
			}
		})
	}
	t.Run("all four took part", func(t *testing.T) {
		for _, e := range four.engines {
			if !strings.Contains(get(t, e+"/metrics"), "sglang:") {
				t.Errorf("%s has no metrics of its engine", e)
			}
		}
		selected := total(t, four.metrics, "smg_worker_selection_total")
		if want := float64(len(prompts) * 2 * 5); selected != want {
			t.Errorf("%v selections, want %v", selected, want)
		}
	})
	for _, g := range []*gateway{one, four} {
		g.stop(143)
	}
}
