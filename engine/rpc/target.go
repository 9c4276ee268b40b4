package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"smg/engine"
)

// Target is an engine's base URL, parsed once, with its connection. Targets with the same
// scheme, host and port share one. It is safe for concurrent use; [Client.Target] makes
// it, [Client.Forget] ends it.
type Target struct {
	url  string
	conn *conn

	forgotten atomic.Bool
}

// String returns the base URL.
func (t *Target) String() string { return t.url }

// conn is the one connection to an engine: gRPC makes it when it is wanted, and again
// when it is lost.
type conn struct {
	key string // scheme and address
	cc  *grpc.ClientConn

	// Guarded by Client.mu.
	targets int
	calls   int       // that run
	unused  time.Time // since when nobody uses it

	mu       sync.Mutex
	dials    uint64 // that have ended, well or not
	failures uint64 // of them
	last     error  // the last one
	waiting  map[*context.CancelFunc]struct{}
}

// parseURL says where a base URL leads.
func parseURL(raw string) (secure bool, hostport string, err error) {
	u, err := url.Parse(raw)
	if err != nil {
		return false, "", fmt.Errorf("parse engine URL: %w", err)
	}
	port := u.Port()
	switch u.Scheme {
	case "grpc":
		if port == "" {
			port = "80"
		}
	case "grpcs":
		secure = true
		if port == "" {
			port = "443"
		}
	default:
		return false, "", fmt.Errorf("engine URL %q: scheme must be grpc or grpcs", raw)
	}
	switch {
	case u.Hostname() == "":
		return false, "", fmt.Errorf("engine URL %q: no host", raw)
	case u.User != nil:
		return false, "", errors.New("engine URL: user and password are not supported, use the worker's API key")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return false, "", fmt.Errorf("engine URL %q: no path, query or fragment allowed", raw)
	}
	return secure, net.JoinHostPort(u.Hostname(), port), nil
}

// dialed notes how an attempt to connect ended, and tells those who wait for it.
func (cn *conn) dialed(err error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.dials++; err == nil {
		return
	}
	cn.failures++
	cn.last = err
	for cancel := range cn.waiting {
		(*cancel)()
	}
}

// failed is the last failure to connect after the first n, and how many dials there were.
func (cn *conn) failed(n uint64) (dials uint64, last error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.failures > n {
		return cn.dials, cn.last
	}
	return cn.dials, nil
}

// ready waits for a connection. Unlike gRPC's own calls it does not go by an earlier
// failure: somebody who calls wants to know how it is now, and an engine may have come
// back a moment ago. It says whether there was one already.
func (cn *conn) ready(ctx context.Context, limit time.Duration) (reused bool, err error) {
	state := cn.cc.GetState()
	if state == connectivity.Ready {
		return true, nil
	}
	return false, cn.connect(ctx, limit, state)
}

// connect is ready for a connection that is not there.
func (cn *conn) connect(ctx context.Context, limit time.Duration, state connectivity.State) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cn.mu.Lock()
	before, dials := cn.failures, cn.dials
	if cn.waiting == nil {
		cn.waiting = map[*context.CancelFunc]struct{}{}
	}
	cn.waiting[&cancel] = struct{}{}
	cn.mu.Unlock()
	defer func() {
		cn.mu.Lock()
		delete(cn.waiting, &cancel)
		cn.mu.Unlock()
	}()
	cn.cc.Connect()
	if state == connectivity.TransientFailure {
		cn.cc.ResetConnectBackoff()
	}
	for {
		moved := cn.cc.WaitForStateChange(ctx, state)
		if state = cn.cc.GetState(); state == connectivity.Ready {
			return nil
		}
		now, err := cn.failed(before)
		switch {
		case err != nil:
			return err
		case !moved:
			return ctx.Err()
		case state == connectivity.Shutdown:
			return engine.ErrClosed
		case state == connectivity.TransientFailure && now > dials:
			return errors.New("the connection was closed before it could be used: is it a gRPC server?")
		case state == connectivity.TransientFailure: // of an attempt that had failed before
			cn.cc.ResetConnectBackoff()
		case state == connectivity.Idle: // behind such a one
			cn.cc.Connect()
		}
	}
}
