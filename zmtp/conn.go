package zmtp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Errors of a [Conn], besides those of the network.
var (
	// ErrProtocol: the peer does not keep to the protocol, or to what is understood
	// of it here.
	ErrProtocol = errors.New("not as ZeroMQ speaks")
	// ErrTooLong: a message is longer than [Config] allows.
	ErrTooLong = errors.New("the message is too long")
	// ErrSilent: the peer did not answer the question whether it is there.
	ErrSilent = errors.New("the peer is silent")
)

// Kind is what a socket is for.
type Kind string

// The kinds of sockets.
const (
	Pub    Kind = "PUB"
	Sub    Kind = "SUB"
	XPub   Kind = "XPUB"
	XSub   Kind = "XSUB"
	Req    Kind = "REQ"
	Rep    Kind = "REP"
	Dealer Kind = "DEALER"
	Router Kind = "ROUTER"
)

// meets says whether a socket may be connected to one of another kind.
func (k Kind) meets(other Kind) bool {
	switch k {
	case Pub, XPub:
		return other == Sub || other == XSub
	case Sub, XSub:
		return other == Pub || other == XPub
	case Req:
		return other == Rep || other == Router
	case Rep:
		return other == Req || other == Dealer
	case Dealer:
		return other == Rep || other == Router || other == Dealer
	case Router:
		return other == Req || other == Dealer || other == Router
	}
	return false
}

// Conn is a connection to a peer that has agreed to it. One goroutine may receive while
// others send; Close ends both.
type Conn struct {
	cfg  Config
	raw  net.Conn
	in   *bufio.Reader
	asks bool // the peer can be asked whether it is there

	mu sync.Mutex // of writes
}

// Dial connects a socket of the given kind to a peer. ctx bounds only that.
func Dial(ctx context.Context, endpoint string, kind Kind, cfg Config) (*Conn, error) {
	network, address, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, cfg.Connect)
	defer stop()
	var d net.Dialer
	raw, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return Agree(ctx, raw, kind, cfg)
}

// Subscribe connects to a peer that publishes, and asks for what begins with topic.
func Subscribe(ctx context.Context, endpoint, topic string, cfg Config) (*Conn, error) {
	c, err := Dial(ctx, endpoint, Sub, cfg)
	if err != nil {
		return nil, err
	}
	if err := c.subscribe(topic); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Agree makes a connection of one that is there already, which it closes if that fails.
func Agree(ctx context.Context, raw net.Conn, kind Kind, cfg Config) (*Conn, error) {
	c := &Conn{cfg: cfg, raw: raw, in: bufio.NewReader(raw)}
	defer context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })()
	if err := c.agree(kind); err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, fmt.Errorf("agreeing with %s: %w", raw.RemoteAddr(), err)
	}
	return c, nil
}

func (c *Conn) agree(kind Kind) error {
	hello := newGreeting()
	sent := make(chan error, 1) // one: nobody may be left to take it
	go func() {                 // both sides may speak first
		_, err := c.raw.Write(hello[:])
		sent <- err
	}()
	minor, err := readGreeting(c.in)
	if err != nil {
		_ = c.raw.Close()
		<-sent
		return err
	}
	if err := <-sent; err != nil {
		return err
	}
	c.asks = minor > 0
	properties := appendProperty(nil, "Socket-Type", string(kind))
	if kind == Req || kind == Dealer || kind == Router {
		properties = appendProperty(properties, "Identity", "")
	}
	go func() {
		_, err := c.raw.Write(appendCommand(nil, ready, properties))
		sent <- err
	}()
	err = c.beReady(kind)
	if err != nil {
		_ = c.raw.Close()
	}
	return errors.Join(err, <-sent)
}

// beReady reads what the peer is.
func (c *Conn) beReady(kind Kind) error {
	f, err := readFrame(c.in, maxCommand)
	if err != nil {
		return err
	}
	if !f.command() {
		return fmt.Errorf("%w: a message before the peer is ready", ErrProtocol)
	}
	name, data, err := splitCommand(f.body)
	switch {
	case err != nil:
		return err
	case name == failed:
		return fmt.Errorf("%w: the peer refuses: %.200q", ErrProtocol, reasonOf(data))
	case name != ready:
		return fmt.Errorf("%w: %.20q before the peer is ready", ErrProtocol, name)
	}
	peer, err := property(data, "Socket-Type")
	if err == nil && !kind.meets(Kind(peer)) {
		err = fmt.Errorf("%w: the peer is a %.20q socket, which a %s socket cannot be connected to", ErrProtocol, peer, kind)
	}
	return err
}

// subscribe asks for a topic, in the words of the peer's version.
func (c *Conn) subscribe(topic string) error {
	if c.asks {
		return c.write(appendCommand(nil, subscribe, []byte(topic)))
	}
	return c.Send(append([]byte{1}, topic...))
}

// Send sends a message. It fails if the peer does not take it within the heartbeat.
func (c *Conn) Send(frames ...[]byte) error { return c.write(appendMessage(nil, frames)) }

func (c *Conn) write(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.raw.SetWriteDeadline(time.Now().Add(c.cfg.Heartbeat)) // one that cannot be set is of a closed connection
	_, err := c.raw.Write(b)
	return err
}

// Receive is the next message, whose frames are the caller's. A subscription is told as
// a message: 1 and the topic, or 0 and the topic for one that ends. io.EOF is a peer that
// has closed the connection between two messages. After an error there is nothing more.
func (c *Conn) Receive() ([][]byte, error) {
	var frames [][]byte
	size := 0
	for {
		if err := c.await(len(frames) == 0); err != nil {
			return nil, err
		}
		f, err := readFrame(c.in, c.cfg.MaxMessage-size)
		switch {
		case err != nil:
			return nil, err
		case f.command() && len(frames) > 0:
			return nil, fmt.Errorf("%w: a command within a message", ErrProtocol)
		case f.command():
			told, err := c.obey(f.body)
			if err != nil || told != nil {
				return told, err
			}
			continue
		}
		frames, size = append(frames, f.body), size+len(f.body)
		if !f.more() {
			return frames, nil
		}
		if len(frames) == c.cfg.MaxFrames {
			return nil, fmt.Errorf("%w: more than %d frames", ErrTooLong, c.cfg.MaxFrames)
		}
	}
}

// await waits for the next frame to begin, and sets the time that it may take. Between
// messages the peer may be silent as long as it answers.
func (c *Conn) await(between bool) error {
	for asked := false; ; {
		_ = c.raw.SetReadDeadline(time.Now().Add(c.cfg.Heartbeat))
		_, err := c.in.Peek(1)
		switch {
		case err == nil:
			_ = c.raw.SetReadDeadline(time.Now().Add(c.cfg.Heartbeat))
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case asked || !between:
			return fmt.Errorf("%w: %w", ErrSilent, err)
		case c.asks:
			asked = true
			if err := c.write(appendCommand(nil, ping, []byte{0, 0})); err != nil {
				return err
			}
		}
	}
}

// obey does what a command asks for. What it tells the caller is a message.
func (c *Conn) obey(body []byte) (told [][]byte, err error) {
	name, data, err := splitCommand(body)
	if err != nil {
		return nil, err
	}
	switch name {
	case ping:
		if len(data) < 2 || len(data) > 18 {
			return nil, fmt.Errorf("%w: a PING of %d bytes", ErrProtocol, len(data))
		}
		return nil, c.write(appendCommand(nil, pong, data[2:]))
	case subscribe:
		return [][]byte{append([]byte{1}, data...)}, nil
	case cancel:
		return [][]byte{append([]byte{0}, data...)}, nil
	case failed:
		return nil, fmt.Errorf("%w: the peer ends: %.200q", ErrProtocol, reasonOf(data))
	}
	return nil, nil // PONG, and what newer versions have
}

// Close ends the connection.
func (c *Conn) Close() error { return c.raw.Close() }
