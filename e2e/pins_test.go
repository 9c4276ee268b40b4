package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"smg/sim/simtest"
)

// TestPinsOutliveTheSelector: a selector that was killed and started again sends
// conversations where they were. Chance would do so once in 4^20 times.
func TestPinsOutliveTheSelector(t *testing.T) {
	for name, args := range map[string][]string{
		"manual":          {"--policy", "manual"},
		"sticky_sessions": {"--policy", "random", "--routing-key-override"},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			bus := fmt.Sprintf("smg:%s@127.0.0.1:%d", natsPassword, block(t, 1))
			g := launched(t, urls(simtest.StartN(t, 4, simtest.Config())), append(args, "--topology", "split", "--shutdown-grace-period-secs", "0", "--nats-listen", bus)...)
			went := map[string]string{}
			for i := range 20 {
				key := fmt.Sprint("conversation-", i)
				went[key] = askChat(t, g.url, "X-SMG-Routing-Key", key)
			}
			awaitPins(t, bus, len(went))
			g.kill("selector regular", syscall.SIGKILL)
			await(t, "another selector to choose", func() bool {
				a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat)
				return len(g.pidsOf("selector regular")) == 2 && a.status == http.StatusOK && a.header.Get("X-Smg-Degraded") == ""
			})
			for key, worker := range went {
				a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat, "X-SMG-Routing-Key", key)
				if got := a.header.Get("X-Smg-Routed-Worker-Id"); got != worker || a.header.Get("X-Smg-Degraded") != "" {
					t.Errorf("%s went to %s (degraded %q), want %s", key, got, a.header.Get("X-Smg-Degraded"), worker)
				}
			}
			await(t, "the hits to be counted", func() bool {
				return gauges(t, g.metrics, "smg_manual_policy_branch_total")[`{branch="occupied_hit"}`] == float64(len(went))
			})
			g.signal(syscall.SIGTERM)
			g.ends(0)
		})
	}
}

// TestPinsOutliveTheGateway: one with a --state-dir that ends, or is killed, and is started
// again sends conversations where they were.
func TestPinsOutliveTheGateway(t *testing.T) {
	for name, end := range map[string]struct {
		topology string
		sig      syscall.Signal
		code     int
	}{
		"single_killed": {"single", syscall.SIGKILL, 128 + int(syscall.SIGKILL)},
		"split_stopped": {"split", syscall.SIGTERM, 0},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			engines := urls(simtest.StartN(t, 4, simtest.Config()))
			bus := fmt.Sprintf("smg:%s@127.0.0.1:%d", natsPassword, block(t, 1))
			args := []string{
				"--policy", "manual", "--topology", end.topology, "--shutdown-grace-period-secs", "0", "--nats-listen", bus,
				"--state-dir", t.TempDir(),
			}
			went := map[string]string{}
			for again := range 2 {
				g := launched(t, engines, args...)
				for i := range 20 {
					key := fmt.Sprint("conversation-", i)
					a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat, "X-SMG-Routing-Key", key)
					got := a.header.Get("X-Smg-Routed-Worker-Id")
					if a.status != http.StatusOK || again > 0 && got != went[key] {
						t.Errorf("start %d: %s went to %q (status %d), want %q", again, key, got, a.status, went[key])
					}
					went[key] = got
				}
				awaitPins(t, bus, len(went))
				g.signal(end.sig)
				g.ends(end.code)
			}
		})
	}
}

// awaitPins waits until n pins are in the bucket of the NATS server at USER:PASSWORD@ADDRESS:
// an answer does not wait for it.
func awaitPins(t *testing.T, at string, n int) {
	t.Helper()
	js := jetStream(t, "nats://"+at)
	await(t, "the pins to be stored", func() bool {
		kv, err := js.KeyValue(t.Context(), "smg_v1_default_pins")
		if err != nil {
			t.Fatal(err)
		}
		s, err := kv.Status(t.Context())
		return err == nil && s.Values() == uint64(n)
	})
}
