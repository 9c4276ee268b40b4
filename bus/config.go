package bus

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Dialer makes connections to a NATS server in this process. natsd.Server is one.
type Dialer interface {
	InProcessConn() (net.Conn, error)
}

// Config is how to connect.
type Config struct {
	// Server is a server in this process to connect to, and to reconnect to. Either
	// it or URL is given.
	Server Dialer
	// URL lists the addresses of the servers of a NATS cluster, separated by commas.
	// They can carry a user and a password.
	URL string
	// Creds is a credentials file, CA one with the certificates that servers of URL
	// must be signed by; "" for none.
	Creds, CA string
	// Replicas is on how many servers a bucket is kept that this process makes, 0 for
	// as many as the cluster gives, at most 3.
	Replicas int
	// Name tells connections apart in the server's lists and in log lines.
	Name string
	// DrainTimeout bounds [Conn.Close].
	DrainTimeout time.Duration
}

// DefaultConfig is all but the server: the name smg, 2 s to drain.
func DefaultConfig() Config {
	return Config{Name: "smg", DrainTimeout: 2 * time.Second}
}

// Validate reports all faults of c. It opens no files.
func (c Config) Validate() error {
	var errs []error
	switch {
	case c.Server == nil && c.URL == "":
		errs = append(errs, errors.New("bus: no server to connect to"))
	case c.Server != nil && c.URL != "":
		errs = append(errs, errors.New("bus: --nats-url names a server, and there is one in this process"))
	case c.URL == "" && c.Creds != "":
		errs = append(errs, errors.New("bus: --nats-creds needs --nats-url"))
	case c.URL == "" && c.CA != "":
		errs = append(errs, errors.New("bus: --nats-tls-ca needs --nats-url"))
	case c.URL != "":
		_, err := parseServers(c.URL)
		errs = append(errs, err)
	}
	if c.Replicas < 0 || c.Replicas > maxReplicas {
		errs = append(errs, fmt.Errorf("bus: --nats-replicas %d is not in 0..%d", c.Replicas, maxReplicas))
	}
	if c.DrainTimeout <= 0 {
		errs = append(errs, fmt.Errorf("bus: a drain within %s", c.DrainTimeout))
	}
	return errors.Join(errs...)
}

// maxReplicas is the most that NATS knows.
const maxReplicas = 5

// parseServers are the addresses of a list. An error shows nothing that can be a
// secret.
func parseServers(list string) ([]*url.URL, error) {
	var servers []*url.URL
	for i, raw := range strings.Split(list, ",") {
		raw = strings.TrimSpace(raw)
		if !strings.Contains(raw, "://") {
			raw = "nats://" + raw
		}
		u, err := url.Parse(raw)
		switch {
		case err != nil:
			return nil, fmt.Errorf("bus: --nats-url: address %d cannot be parsed: write nats://host:port", i+1)
		case !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
			return nil, fmt.Errorf("bus: --nats-url: address %d has the scheme %q: write nats://host:port", i+1, u.Scheme)
		case u.Hostname() == "":
			return nil, fmt.Errorf("bus: --nats-url: address %d names no host: write nats://host:port", i+1)
		}
		servers = append(servers, u)
	}
	return servers, nil
}

// plainAddress is u without user, password and token.
func plainAddress(u *url.URL) string { return u.Scheme + "://" + u.Host }

// Address is where the servers are, for logs and messages: without user, password
// and token.
func (c Config) Address() string {
	if c.Server != nil {
		return "this process"
	}
	servers, err := parseServers(c.URL)
	if err != nil {
		return "an address that cannot be parsed"
	}
	var list []string
	for _, u := range servers {
		list = append(list, plainAddress(u))
	}
	return strings.Join(list, ",")
}

// reach is the options that say which server to connect to.
func (c Config) reach() (urls string, options []nats.Option, err error) {
	if c.Server != nil {
		return "", []nats.Option{nats.InProcessServer(c.Server)}, nil
	}
	servers, err := parseServers(c.URL)
	if err != nil {
		return "", nil, err
	}
	var list []string
	for _, u := range servers {
		list = append(list, u.String())
	}
	options = []nats.Option{
		nats.SetCustomDialer(&dialer{}),
		nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), // who refuses us today may be set right tomorrow
	}
	if c.Creds != "" {
		if err := checkCreds(c.Creds); err != nil {
			return "", nil, err
		}
		options = append(options, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		options = append(options, nats.RootCAs(c.CA))
	}
	return strings.Join(list, ","), options, nil
}

// checkCreds finds out at the start what would fail at every connection.
func checkCreds(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the file of --nats-creds: %w", err)
	}
	defer clear(data)
	if _, err := nkeys.ParseDecoratedJWT(data); err != nil {
		return fmt.Errorf("--nats-creds: %s has no user JWT: it is not a credentials file", file)
	}
	key, err := nkeys.ParseDecoratedNKey(data)
	if err != nil {
		return fmt.Errorf("--nats-creds: %s has no user key: it is not a credentials file", file)
	}
	key.Wipe()
	return nil
}

// dialer closes the connection of an attempt that failed when the next one is made,
// which nats.go leaves to the garbage collector. It makes one at a time.
type dialer struct{ last net.Conn }

// Dial is called by nats.go when what it dialled before is of no use any more.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if d.last != nil {
		d.last.Close() // its error says that it was closed already
	}
	var err error
	d.last, err = net.DialTimeout(network, address, dialTimeout)
	return d.last, err
}
