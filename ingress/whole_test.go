package ingress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"smg/worker"
)

// json200 is an answer with a body and its length.
func json200(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
}

func TestFieldAnswers(t *testing.T) {
	const aborted = `{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"too long","status_code":400}}}`
	for _, tt := range []struct {
		name, answer string
		status       int
		outcome      worker.Outcome
	}{
		{"ST-09_validation", json200(aborted), 400, worker.Neutral},
		{"ST-09_in_pieces", "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(aborted[:40]) + chunk(aborted[40:]) + lastOne, 400, worker.Neutral},
		{"ST-09_internal", json200(strings.Replace(aborted, "400", "500", 1)), 500, worker.Failure},
		{"ST-09_no_status", json200(`{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"gone"}}}`), 500, worker.Failure},
		{"ST-09_all_of_a_batch", json200("[" + aborted + "," + aborted + "]"), 400, worker.Neutral},
		{"ST-09_a_choice", json200(`{"choices":[{"message":{"content":""},"finish_reason":"error"}]}`), 500, worker.Failure},
		{"ST-09_a_choice_of_sglang", json200(`{"choices":[{"message":{"content":null},"finish_reason":{"type":"abort","status_code":400}}]}`), 400, worker.Neutral},
		{"ST-09_event", sseHead + chunk("data: "+aborted+"\n\n") + lastOne, 400, worker.Neutral},
		{"ST-09_has_a_text", json200(`{"text":"so far","meta_info":{"finish_reason":{"type":"abort"}}}`), 200, worker.Success},
		{"ST-09_one_of_two", json200(`{"choices":[{"text":"x","finish_reason":"stop"},{"text":"","finish_reason":"abort"}]}`), 200, worker.Success},
		{"ST-09_a_word_in_the_text", json200(`{"choices":[{"message":{"content":"\"abort\" \"error\""},"finish_reason":"stop"}]}`), 200, worker.Success},
		{"ST-09_null", json200(`{"error":null,"choices":[{"text":"x","finish_reason":null}]}`), 200, worker.Success},
		{"ST-09_no_json", json200(`"abort"`), 200, worker.Success},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, url := answers(t, tt.answer)
			g := start(t, []string{url})
			r := g.do(post("/generate", `{"text":"x"}`))
			if r.status != tt.status || r.err != nil {
				t.Fatalf("%d %s %v, want %d", r.status, r.body, r.err, tt.status)
			}
			if tt.status != 200 {
				r.fails(t, tt.status, "upstream_error")
			}
			g.idle()
			if e := g.selector.last(t); e.Outcome != tt.outcome {
				t.Errorf("the worker has %v", e)
			}
		})
	}

	t.Run("ST-09_tried_again", func(t *testing.T) {
		t.Parallel()
		_, bad := answers(t, json200(strings.Replace(aborted, "400", "503", 1)))
		_, good := answers(t, jsonOK)
		g := start(t, []string{bad, good}, withConfig(func(c *Config) { c.Retry = quick(2) }))
		for range 2 {
			if r := g.do(chat(chatBody)); r.status != 200 || r.body != `{"ok":true}` {
				t.Errorf("%d %s", r.status, r.body)
			}
		}
	})

	t.Run("ST-11_bodies_are_let_go", func(t *testing.T) {
		const streams, size = 8, 4 << 20
		url := engineAt(t, func(nc net.Conn, br *bufio.Reader) {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			_, _ = io.WriteString(nc, sseHead+chunk(event))
			_, _ = br.ReadByte() // the stream goes on
		})
		g := start(t, []string{url})
		large := chat(strings.Replace(streamBody, "hi", strings.Repeat("x", size), 1))
		before := heap()
		for range streams {
			c := g.dial()
			c.send(large)
			if resp := c.head(); resp.StatusCode != 200 {
				t.Fatalf("%d", resp.StatusCode)
			}
		}
		within(t, patience, "the budget is whole", func() bool { return g.Server.buffers.left.Load() == g.budget })
		if g.selector.active() != streams {
			t.Fatalf("%d streams run", g.selector.active())
		}
		within(t, patience, "the memory is free", func() bool { return heap() < before+size })
	})
}

// heap is how much memory is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// quick is n attempts without a wait worth the name.
func quick(n int) Retry {
	r := DefaultRetry()
	r.Attempts, r.Initial = n, 1e6
	return r
}

// pieces is an answer that comes piece by piece, and may break off.
type pieces struct {
	left []string
	err  error // in place of the end
}

func (p *pieces) Next() ([]byte, error) {
	if len(p.left) == 0 {
		if p.err != nil {
			return nil, p.err
		}
		return nil, io.EOF
	}
	b := []byte(p.left[0])
	p.left = p.left[1:]
	return b, nil
}

func (p *pieces) Ended() bool   { return len(p.left) == 0 && p.err == nil }
func (p *pieces) Buffered() int { return 0 }

func TestGathered(t *testing.T) {
	boom := errors.New("boom")
	big := strings.Repeat("x", maxWhole-1)
	for _, tt := range []struct {
		name   string
		src    pieces
		length int64
		budget int64
		want   int // bytes
		err    error
	}{
		{"in one piece", pieces{left: []string{"all"}}, -1, 0, 3, nil},
		{"in pieces", pieces{left: []string{"a", big[:200_000], "c"}}, -1, 1 << 30, 200_002, nil},
		{"of a length", pieces{left: []string{"a", "b", "c"}}, 3, 3 + readStep, 3, nil},
		{"breaks off", pieces{left: []string{"a", "b"}, err: boom}, -1, 1 << 30, 2, boom},
		{"enough", pieces{left: []string{"a", big, "c"}}, -1, 1 << 30, maxWhole, nil},
		{"too long by its length", pieces{left: []string{"a", "b"}}, maxWhole + 1, 1 << 30, 1, nil},
		{"no memory", pieces{left: []string{"a", "b"}}, -1, 10, 1, nil},
		{"no more memory", pieces{left: []string{"a", big[:70_000], "c"}}, -1, readStep + 10, 70_001, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b buffers
			b.left.Store(tt.budget)
			first, err := tt.src.Next()
			if err != nil {
				t.Fatal(err)
			}
			var g gathered
			come, err := g.rest(&tt.src, tt.length, first, &b)
			if len(come) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%d bytes and %v, want %d and %v", len(come), err, tt.want, tt.err)
			}
			g.release()
			if left := b.left.Load(); left != tt.budget {
				t.Errorf("%d bytes of the budget are missing", tt.budget-left)
			}
		})
	}
}
