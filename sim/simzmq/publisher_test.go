package simzmq_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"
	"go.uber.org/goleak"

	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/sim/simzmq"
	"smg/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs an engine of two blocks that publishes.
func start(t *testing.T, kind simhttp.Kind) (e *simtest.Engine, p *simzmq.Publisher, events, replay string) {
	t.Helper()
	cfg := simtest.Config()
	cfg.Kind, cfg.KVEvents = kind, true
	cfg.Core.KVBlocks, cfg.Core.BlockSize, cfg.Core.ContextLength = 2, 4, 8
	e = simtest.Start(t, cfg)
	var lns [2]net.Listener
	for i := range lns {
		var err error
		if lns[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	p = simzmq.New(e.Server, lns[0], lns[1])
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return e, p, "tcp://" + lns[0].Addr().String(), "tcp://" + lns[1].Addr().String()
}

// ask has an engine compute a prompt of token ids, and one token of an answer.
func ask(t *testing.T, e *simtest.Engine, ids string) {
	t.Helper()
	post(t, e.URL+"/v1/completions", fmt.Sprintf(`{"model":"sim","prompt":%s,"max_tokens":1}`, ids))
}

func post(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
}

// said is a message: its number, and its events as text, hashes by the order in which
// they were seen.
type said struct {
	names map[string]string
}

func (s *said) text(t *testing.T, frames [][]byte) string {
	t.Helper()
	n := len(frames)
	v, rest, err := msgp.ReadIntfBytes(frames[n-1])
	batch, ok := v.([]any)
	if err != nil || len(rest) > 0 || !ok || len(batch) != 3 {
		t.Fatalf("payload %v, %v", v, err)
	}
	text := strings.NewReplacer("int64 ", "", "uint64 ", "").Replace(fmt.Sprint(batch[1]))
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("[]: ", r) }) {
		if len(word) > 12 && strings.Trim(word, "-0123456789") == "" {
			if s.names[word] == "" {
				s.names[word] = fmt.Sprintf("#%d", len(s.names)+1)
			}
			text = strings.ReplaceAll(text, word, s.names[word])
		}
	}
	return fmt.Sprintf("%d %s", int64(binary.BigEndian.Uint64(frames[n-2])), text)
}

func TestPublisher(t *testing.T) {
	tests := []struct {
		kind simhttp.Kind
		want []string
	}{
		{simhttp.VLLM, []string{
			"0 [[BlockStored [#1] <nil> [1 2 3 4] 4 <nil> GPU]]",
			"1 [[BlockStored [#2] <nil> [5 6 7 8] 4 <nil> GPU]]",
			"2 [[BlockRemoved [#1] GPU]]",
			"3 [[BlockStored [#3] <nil> [9 10 11 12] 4 <nil> GPU]]",
			"4 [[AllBlocksCleared]]",
		}},
		{simhttp.SGLang, []string{
			"0 [map[block_hashes:[#1] block_size:4 lora_id:<nil> medium:GPU parent_block_hash:<nil> token_ids:[1 2 3 4] type:BlockStored]]",
			"1 [map[block_hashes:[#2] block_size:4 lora_id:<nil> medium:GPU parent_block_hash:<nil> token_ids:[5 6 7 8] type:BlockStored]]",
			"2 [map[block_hashes:[#1] medium:GPU type:BlockRemoved]]",
			"3 [map[block_hashes:[#3] block_size:4 lora_id:<nil> medium:GPU parent_block_hash:<nil> token_ids:[9 10 11 12] type:BlockStored]]",
			"4 [map[type:AllBlocksCleared]]",
		}},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			e, p, events, replay := start(t, tt.kind)
			c, err := zmtp.Subscribe(t.Context(), events, "kv", zmtp.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if !p.Listening(t.Context()) {
				t.Fatal("nobody listens")
			}
			ask(t, e, "[1,2,3,4]")
			ask(t, e, "[5,6,7,8]")
			ask(t, e, "[9,10,11,12]")
			flush := "/reset_prefix_cache"
			if tt.kind == simhttp.SGLang {
				flush = "/flush_cache"
			}
			post(t, e.URL+flush, "")
			var got []string
			live := said{map[string]string{}}
			for range tt.want {
				frames, err := c.Receive()
				if err != nil || len(frames) != 3 {
					t.Fatalf("%d frames, %v", len(frames), err)
				}
				got = append(got, live.text(t, frames))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("published (-want +got):\n%s", diff)
			}
			d, err := zmtp.Dial(t.Context(), replay, zmtp.Dealer, zmtp.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			_ = d.Send([]byte("nonsense"))
			if err := d.Send(nil, []byte{0, 0, 0, 0, 0, 0, 0, 1}); err != nil {
				t.Fatal(err)
			}
			for _, want := range got[1:] {
				if frames, err := d.Receive(); err != nil || live.text(t, frames) != want {
					t.Errorf("sent again: %q, %v", frames, err)
				}
			}
			if frames, err := d.Receive(); err != nil || len(frames) != 3 || string(frames[1]) != strings.Repeat("\xff", 8) {
				t.Errorf("at the end: %q, %v", frames, err)
			}
		})
	}
}
