package bus_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
)

// TestField holds the reports of the field that concern the connection itself.
func TestField(t *testing.T) {
	t.Run("NC-04_a_server_that_goes_and_comes_back", returning)
	t.Run("NC-05_too_large_a_message_is_an_error", tooLarge)
	t.Run("NC-06_a_slow_handler_delays_nobody_else", slowHandler)
}

// tooLarge is a message that NATS would not take: who sends it is told, it is
// counted, and the connection lasts.
func tooLarge(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := bus.DefaultConfig()
	cfg.Server = bustest.Server(t)
	c := bustest.ConnectWith(t, cfg, reg, slog.New(slog.DiscardHandler))
	var got inbox[string]
	subscribe(t, c, text("a"), got.add)
	huge, word := strings.Repeat("x", wire.MaxMessage+1), "x"
	if err := bus.Publish(c, text("a"), &huge); err == nil || !strings.Contains(err.Error(), "publishing on a") {
		t.Errorf("got %v, want an error that names the subject", err)
	}
	publish(t, c, text("a"), &word)
	if all := got.await(t, 1); all[0] != word {
		t.Errorf("%d bytes came", len(all[0]))
	}
	want := `
# HELP smg_bus_publish_errors_total Messages that were not handed to NATS, by topic.
# TYPE smg_bus_publish_errors_total counter
smg_bus_publish_errors_total{topic="text"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "smg_bus_publish_errors_total"); err != nil {
		t.Error(err)
	}
}
