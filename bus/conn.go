package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// ErrDisconnected says that there is no connection to NATS now. What was to be
// sent is not kept.
var ErrDisconnected = errors.New("not connected to NATS")

// How a connection that is lost is noticed and made again. It is tried for ever.
const (
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 100 * time.Millisecond
	pingInterval    = 2 * time.Second
	pingsOut        = 2
	dialTimeout     = 2 * time.Second
	writeTimeout    = 2 * time.Second // of a peer that reads no more
)

// Conn is a connection to NATS that comes back by itself. It is safe for
// concurrent use. [Conn.Close] ends it.
type Conn struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	nc      *nats.Conn
	js      jetstream.JetStream

	// What nats.go knows it guards with a lock that it holds while it dials, for
	// seconds, so that whoever must not wait asks up.
	up    atomic.Bool
	made  chan struct{} // closed when nc is set
	first chan error    // holds one: how the first attempt ended
	news  news

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
//
// With cfg.URL, a server that is not there yet is no error: it is tried for ever,
// and the connection, which until then is not [Conn.Connected], can be used as if
// it were lost. A server that is there and will not do is an error that says what
// to change: one that refuses the credentials, is not trusted, is older than 2.11
// or has no JetStream. Connect waits for one attempt at each address, of 2 s at most.
func Connect(cfg Config, reg prometheus.Registerer, log *slog.Logger) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	urls, options, err := cfg.reach()
	if err != nil {
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
		made:      make(chan struct{}),
		first:     make(chan error, 1),
		closed:    make(chan struct{}),
		listeners: map[int]func(){},
		subs:      map[*nats.Subscription]func(){},
	}
	c.nc, err = nats.Connect(urls, append(options, c.options()...)...)
	close(c.made)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	if c.js, err = jetstream.New(c.nc); err == nil {
		err = c.attempted(<-c.first)
	}
	if err != nil {
		c.nc.Close()
		<-c.closed
		return nil, fmt.Errorf("connecting to NATS at %s: %w", cfg.Address(), err)
	}
	return c, nil
}

func (c *Conn) options() []nats.Option {
	return []nats.Option{
		nats.Name(c.cfg.Name),
		nats.ReconnectBufSize(-1), // what waited for a connection is stale when there is one
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(c.delay),
		nats.Timeout(dialTimeout),
		nats.FlusherTimeout(writeTimeout),
		nats.ReconnectOnFlusherError(),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsOut),
		nats.DrainTimeout(c.cfg.DrainTimeout),
		nats.ConnectHandler(c.connected),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.failedToConnect(err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.lost(err) }),
		nats.ReconnectHandler(c.reconnected),
		nats.ClosedHandler(func(*nats.Conn) {
			c.up.Store(false)
			close(c.closed)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { c.failed(sub, err) }),
	}
}

// Connected says whether there is a connection now. It does not wait.
func (c *Conn) Connected() bool { return c.up.Load() }

// OnReconnect has f called after each return of a lost connection, and after the
// first connection if Connect did not wait for it, when all subscriptions are in
// place, until remove is called. Who calls OnReconnect first and then looks at
// [Conn.Connected] misses no connection. f must not block, and may be called once
// more while remove returns.
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

// Close lets handlers finish what has arrived, sends what was published, and
// disconnects, within twice the drain timeout whatever happens, save that an attempt
// to connect which is under way is waited for. What could not be sent in time is lost,
// with a line in the log. It returns after the last call of a handler, or an error.
// Closing twice is closing once.
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
		// A slow machine is no failure: whoever has not heard the last of it finds out.
		c.log.Warn("the connection to NATS was closed before everything had been sent", slog.Duration("waited", c.cfg.DrainTimeout))
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
