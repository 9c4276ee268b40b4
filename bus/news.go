package bus

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// news is what was told of the connection's state, so that each change is told
// once.
type news struct {
	begun    bool // the first attempt has ended; of nats.go's callbacks alone
	outage   said // reasons given for the present outage
	reported said // errors of a connection that lasts
}

// said is what was said. It is safe for concurrent use.
type said struct {
	mu   sync.Mutex
	what map[string]bool
}

// maxSaid bounds what is remembered; what comes later is not said.
const maxSaid = 64

// first says whether what was not said before, and that it is now.
func (s *said) first(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.what[what] || len(s.what) == maxSaid {
		return false
	}
	if s.what == nil {
		s.what = map[string]bool{}
	}
	s.what[what] = true
	return true
}

func (s *said) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.what)
}

// attempted is told how the first attempt ended. It is an error if it can be seen
// that trying again is of no use.
func (c *Conn) attempted(err error) error {
	if err == nil {
		return c.fit()
	}
	if r := refusal(err); r != nil {
		return r
	}
	if errors.Is(err, nats.ErrNoServers) {
		err = errors.New("no server listens there")
	}
	c.log.Warn("NATS cannot be reached; it is tried until it can", "server", c.cfg.Address(), "error", err)
	return nil
}

// fit is an error if the server that we are connected to is known not to do. One
// of this process always does.
func (c *Conn) fit() error {
	if c.cfg.Server != nil {
		return nil
	}
	if err := checkVersion(c.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	if err := checkJetStream(c.js); err != nil {
		return err
	}
	c.log.Info("connected to NATS", c.where(c.nc)...)
	return nil
}

// where is, for the log, the server that nc is connected to; nothing for one of
// this process.
func (c *Conn) where(nc *nats.Conn) []any {
	if c.cfg.Server != nil {
		return nil
	}
	address := "gone again"
	if u, err := url.Parse(nc.ConnectedUrl()); err == nil && u.Host != "" {
		address = plainAddress(u)
	}
	return []any{"server", address, "version", nc.ConnectedServerVersion()}
}

// connected is called for the first connection.
func (c *Conn) connected(nc *nats.Conn) {
	c.up.Store(nc.IsConnected()) // it may be lost already, which was told before this
	if !c.news.begun {
		c.news.begun = true
		c.first <- nil
		return
	}
	c.log.Info("connected to NATS", c.where(nc)...)
	c.returned(nc)
}

// reconnected is called for each later one.
func (c *Conn) reconnected(nc *nats.Conn) {
	c.up.Store(true)
	c.metrics.reconnects.Inc()
	c.log.Info("connected to NATS again", c.where(nc)...)
	c.returned(nc)
}

// returned tells everybody that there is a connection.
func (c *Conn) returned(nc *nats.Conn) {
	c.news.outage.forget()
	if c.cfg.Server == nil {
		if err := checkVersion(nc.ConnectedServerVersion()); err != nil {
			c.log.Error("NATS will not do", "error", err)
		}
	}
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

// lost is called when a connection ends; err is nil if we end it.
func (c *Conn) lost(err error) {
	c.up.Store(false)
	if err != nil {
		c.log.Warn("connection to NATS lost", "error", err)
	}
}

// failedToConnect is called after attempts, though not after all.
func (c *Conn) failedToConnect(err error) {
	if !c.news.begun {
		c.news.begun = true
		c.first <- err
		return
	}
	c.refused(err)
}

// delay is the time between rounds of attempts. nats.go asks for it after each
// round, without a lock, and has nobody told of some of the errors.
func (c *Conn) delay(int) time.Duration {
	<-c.made
	c.refused(c.nc.LastError())
	return reconnectWait + rand.N(reconnectJitter) // unseeded, so that no two processes return as one
}

// refused tells, once in an outage, that a server is there which will not do. That
// none is there has been told.
func (c *Conn) refused(err error) {
	if r := refusal(err); r != nil && c.news.outage.first(r.Error()) {
		c.log.Error("NATS will not do; it is tried until it does", "server", c.cfg.Address(), "error", r)
	}
}

// failed is told of errors that no call can return.
func (c *Conn) failed(sub *nats.Subscription, err error) {
	c.mu.Lock()
	lost := c.subs[sub]
	c.mu.Unlock()
	switch {
	case lost != nil && errors.Is(err, nats.ErrSlowConsumer):
		lost()
	case errors.Is(err, nats.ErrPermissionViolation):
		if c.news.reported.first(err.Error()) {
			c.log.Error("NATS does not let us", "error", err,
				"hint", "the user needs the permissions of deploy/nats/smg.conf for this service, its leg and its --cluster")
		}
	case refusal(err) != nil:
		c.refused(err)
	default:
		// What else there is mends itself: watches start anew, the connection returns.
		c.log.Debug("error on the connection to NATS", "error", err)
	}
}
