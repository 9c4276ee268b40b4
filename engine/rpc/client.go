package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"smg/engine"
)

// Client calls engines. It is safe for concurrent use. Each target has one connection,
// made when it is wanted; each stream has a goroutine, which also tells the engine if the
// stream is given up. [Client.Run] adds the one that drops connections which nobody uses.
type Client struct {
	cfg    Config
	tls    *tls.Config
	dialer net.Dialer

	base context.Context //nolint:containedctx // of all streams: it ends with the client
	end  context.CancelFunc

	aborts, abortsFailed atomic.Uint64

	mu      sync.Mutex // guards what follows; taken before a conn's own
	closed  bool
	conns   map[string]*conn
	streams sync.WaitGroup // calls that run
}

// Stats counts since the client was made.
type Stats struct {
	Aborts       uint64 // calls that engines were told to give up
	AbortsFailed uint64 // of which an engine could not be told
}

// New returns a client without connections. It must be closed, or run.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{
		cfg:    cfg,
		tls:    &tls.Config{RootCAs: cfg.RootCAs, GetClientCertificate: cfg.Certificates, MinVersion: tls.VersionTLS12},
		dialer: net.Dialer{KeepAlive: cfg.KeepAlive},
		conns:  make(map[string]*conn),
	}
	if cfg.KeepAlive == 0 {
		c.dialer.KeepAlive = -1
	}
	c.base, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	return Stats{Aborts: c.aborts.Load(), AbortsFailed: c.abortsFailed.Load()}
}

// Target parses an engine's base URL (scheme grpc or grpcs, no path). It does no I/O.
// Keep the result as long as the worker exists, then [Client.Forget] it.
func (c *Client) Target(rawURL string) (*Target, error) {
	secure, hostport, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	key := "grpc://" + hostport
	if secure {
		key = "grpcs://" + hostport
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("engine %s: client: %w", key, engine.ErrClosed)
	}
	cn := c.conns[key]
	if cn == nil {
		if cn, err = c.dial(key, secure, hostport); err != nil {
			return nil, fmt.Errorf("engine %s: %w", key, err)
		}
		c.conns[key] = cn
	}
	cn.targets++
	return &Target{url: key, conn: cn}, nil
}

// Forget lets a target's connection go once its calls have ended, unless another target
// shares it or comes back within Config.Linger. A forgotten target must not be called.
func (c *Client) Forget(t *Target) {
	if t.forgotten.Swap(true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.conn.targets--; t.conn.targets == 0 {
		t.conn.unused = time.Now()
	}
}

// dial makes the connection of an address, which is not opened yet.
func (c *Client) dial(key string, secure bool, hostport string) (*conn, error) {
	cn := &conn{key: key}
	creds := insecure.NewCredentials()
	if secure {
		creds = credentials.NewTLS(c.tls.Clone())
	}
	var err error
	// The dialer looks the name up, anew for each connection.
	cn.cc, err = grpc.NewClient("passthrough:///"+hostport,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := c.dialer.DialContext(ctx, "tcp", addr)
			cn.dialed(err)
			return nc, err
		}),
		grpc.WithAuthority(hostport),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: c.cfg.ConnectTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: c.cfg.Ping, Timeout: c.cfg.PingTimeout, PermitWithoutStream: true}),
		grpc.WithInitialWindowSize(c.cfg.StreamWindow),
		grpc.WithInitialConnWindowSize(c.cfg.ConnWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.cfg.MaxMessageBytes), grpc.MaxCallSendMsgSize(c.cfg.MaxMessageBytes)),
		grpc.WithStatsHandler(watcher{}),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(), // but for calls that have provably not been looked at
		grpc.WithIdleTimeout(0), // a connection is kept as long as its worker
		grpc.WithUserAgent("smg"),
	)
	return cn, err
}

// Run drops connections that no target uses any more, until ctx ends; then it closes the
// client.
func (c *Client) Run(ctx context.Context) error {
	defer c.Close()
	tick := time.NewTicker(min(c.cfg.Linger, 10*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			c.reap(now)
		}
	}
}

func (c *Client) reap(now time.Time) {
	var old []*conn
	c.mu.Lock()
	for key, cn := range c.conns {
		if cn.targets == 0 && cn.calls == 0 && now.Sub(cn.unused) >= c.cfg.Linger {
			delete(c.conns, key)
			old = append(old, cn)
		}
	}
	c.mu.Unlock()
	for _, cn := range old {
		_ = cn.cc.Close() // it fails only if it is closed already
	}
}

// Close refuses further calls with ErrClosed, gives those that run Config.AbortTimeout
// to end, cuts the others, and closes all connections. It returns when nothing of the
// client runs any more.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	conns := make([]*conn, 0, len(c.conns))
	for _, cn := range c.conns {
		conns = append(conns, cn)
	}
	c.mu.Unlock()
	limit := time.AfterFunc(c.cfg.AbortTimeout, c.end)
	defer limit.Stop()
	c.streams.Wait()
	c.end()
	for _, cn := range conns {
		_ = cn.cc.Close() // it fails only if it is closed already
	}
}

// enter counts a call of a connection in, unless the client is closed. When it is over,
// exit is due.
func (c *Client) enter(cn *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.streams.Add(1)
	cn.calls++
	return true
}

func (c *Client) exit(cn *conn) {
	c.mu.Lock()
	cn.calls--
	cn.unused = time.Now()
	c.mu.Unlock()
	c.streams.Done()
}
