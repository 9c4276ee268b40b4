package bus

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Why a message that arrived was not handled: values of the label reason.
const (
	malformed = "malformed" // it could not be decoded
	slow      = "slow"      // its handler was too far behind
)

type metrics struct {
	dropped       *prometheus.CounterVec
	publishErrors *prometheus.CounterVec
	reconnects    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_bus_dropped_total",
			Help: "Messages from NATS that were dropped, by topic and reason.",
		}, []string{"topic", "reason"}),
		publishErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_bus_publish_errors_total",
			Help: "Messages that were not handed to NATS, by topic.",
		}, []string{"topic"}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "smg_bus_reconnects_total",
			Help: "Returns of a lost connection to NATS.",
		}),
	}
	var errs []error
	m.dropped = register(reg, m.dropped, &errs)
	m.publishErrors = register(reg, m.publishErrors, &errs)
	m.reconnects = register(reg, m.reconnects, &errs)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering metrics of the bus: %w", err)
	}
	return m, nil
}

// register is c, or the collector that another connection registered before.
func register[C prometheus.Collector](reg prometheus.Registerer, c C, errs *[]error) C {
	err := reg.Register(c)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if shared, ok := before.ExistingCollector.(C); ok {
			return shared
		}
	}
	if err != nil {
		*errs = append(*errs, err)
	}
	return c
}
