package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// ErrDisconnected says that there is no connection to NATS now. What was to be
// sent is not kept.
var ErrDisconnected = errors.New("not connected to NATS")

// Dialer makes connections to a NATS server in this process. natsd.Server is one.
type Dialer interface {
	InProcessConn() (net.Conn, error)
}

// Config is how to connect.
type Config struct {
	// Server is the server to connect to, and to reconnect to.
	Server Dialer
	// Name tells connections apart in the server's lists and in log lines.
	Name string
	// DrainTimeout bounds [Conn.Close].
	DrainTimeout time.Duration
}

// DefaultConfig is all but the server: the name smg, 2 s to drain.
func DefaultConfig() Config {
	return Config{Name: "smg", DrainTimeout: 2 * time.Second}
}

// Validate reports all faults of c.
func (c Config) Validate() error {
	var errs []error
	if c.Server == nil {
		errs = append(errs, errors.New("bus: no server to connect to"))
	}
	if c.DrainTimeout <= 0 {
		errs = append(errs, fmt.Errorf("bus: a drain within %s", c.DrainTimeout))
	}
	return errors.Join(errs...)
}

// How a connection that is lost is noticed and made again. It is tried for ever.
const (
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 100 * time.Millisecond
	pingInterval    = 2 * time.Second
	pingsOut        = 2
)

// Conn is a connection to NATS that comes back by itself. It is safe for
// concurrent use. [Conn.Close] ends it.
type Conn struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	nc      *nats.Conn
	js      jetstream.JetStream

	closed   chan struct{}  // when nats.go has made its last callback
	handlers sync.WaitGroup // subscriptions whose handler may be called

	mu        sync.Mutex
	closing   bool
	listeners map[int]func()
	next      int
	subs      map[*nats.Subscription]func() // told that messages were lost
}

// Connect connects to the server. Metrics are registered with reg; connections of
// one process share them.
func Connect(cfg Config, reg prometheus.Registerer, log *slog.Logger) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		cfg:       cfg,
		log:       log.With("connection", cfg.Name),
		metrics:   m,
		closed:    make(chan struct{}),
		listeners: map[int]func(){},
		subs:      map[*nats.Subscription]func(){},
	}
	c.nc, err = nats.Connect("", c.options()...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	if c.js, err = jetstream.New(c.nc); err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("connecting to JetStream: %w", err)
	}
	return c, nil
}

func (c *Conn) options() []nats.Option {
	return []nats.Option{
		nats.InProcessServer(c.cfg.Server),
		nats.Name(c.cfg.Name),
		nats.ReconnectBufSize(-1), // what waited for a connection is stale when there is one
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsOut),
		nats.DrainTimeout(c.cfg.DrainTimeout),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil when we close
				c.log.Warn("connection to NATS lost", "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { c.reconnected() }),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { c.failed(sub, err) }),
	}
}

// Connected says whether there is a connection now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// OnReconnect has f called after each return of a lost connection, when all
// subscriptions are in place again, until remove is called. f must not block, and
// may be called once more while remove returns.
func (c *Conn) OnReconnect(f func()) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next
	c.next++
	c.listeners[n] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, n)
	}
}

func (c *Conn) reconnected() {
	c.metrics.reconnects.Inc()
	c.log.Info("connected to NATS again")
	c.mu.Lock()
	listeners := make([]func(), 0, len(c.listeners))
	for _, f := range c.listeners {
		listeners = append(listeners, f)
	}
	c.mu.Unlock()
	for _, f := range listeners {
		f()
	}
}

// begin counts a subscription in, unless the connection is closing.
func (c *Conn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.handlers.Add(1)
	}
	return !c.closing
}

// watch has lost called when sub lost messages; nil ends that.
func (c *Conn) watch(sub *nats.Subscription, lost func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost == nil {
		delete(c.subs, sub)
		return
	}
	c.subs[sub] = lost
}

// failed is told of errors that no call can return.
func (c *Conn) failed(sub *nats.Subscription, err error) {
	c.mu.Lock()
	lost := c.subs[sub]
	c.mu.Unlock()
	if lost != nil && errors.Is(err, nats.ErrSlowConsumer) {
		lost()
		return
	}
	// What else there is mends itself: watches start anew, the connection returns.
	c.log.Debug("error on the connection to NATS", "error", err)
}

// Close lets handlers finish what has arrived, sends what was published, and
// disconnects, within twice the drain timeout whatever happens. It returns after
// the last call of a handler, or an error. Closing twice is closing once.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	err := c.nc.Drain()
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionReconnecting) {
		err = nil // nothing to drain
	}
	drained := c.wait(c.closed)
	c.nc.Close()
	if err == nil && !drained {
		err = fmt.Errorf("not drained within %s", c.cfg.DrainTimeout)
	}
	ended := make(chan struct{})
	go func() {
		c.handlers.Wait()
		<-c.closed
		close(ended)
	}()
	if !c.wait(ended) {
		err = errors.Join(err, errors.New("a handler does not return"))
	}
	if err != nil {
		return fmt.Errorf("closing the connection to NATS: %w", err)
	}
	return nil
}

func (c *Conn) wait(done <-chan struct{}) bool {
	t := time.NewTimer(c.cfg.DrainTimeout)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// sendError turns the many ways of not being connected into one.
func sendError(err error) error {
	for _, gone := range []error{
		nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrDisconnected,
		nats.ErrConnectionClosed, nats.ErrConnectionDraining,
	} {
		if errors.Is(err, gone) {
			return fmt.Errorf("%w: %w", ErrDisconnected, err)
		}
	}
	return err
}
