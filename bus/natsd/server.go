// Package natsd is the NATS server that runs inside the process when nobody names
// an external one: JetStream in memory, or in a directory that is to be kept, no signal
// handling, and no listener unless other processes are to connect. It owns the server's
// options, its directory, who may connect, and its log lines. It knows nothing of what they say.
package natsd

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Config is what can be chosen about an embedded server.
type Config struct {
	// MaxMemory is the most bytes that JetStream keeps in memory.
	MaxMemory int64
	// TempDir is where the server makes its private directory. It holds a few
	// small files, which are removed when the server stops.
	TempDir string
	// StateDir is where the server keeps its buckets over restarts, "" for in memory. It is
	// made if there is none, and no two servers can share it.
	StateDir string
	// ReadyTimeout is the longest wait for the server to be ready.
	ReadyTimeout time.Duration

	// Listen is the address, host:port, on which other processes can connect, "" for
	// none; port 0 is any free one.
	Listen string
	// User and Password are what they must bring. Both empty: made at the start, see
	// [Server.ClientURL].
	User, Password string
}

// DefaultConfig is 256 MiB in memory, a directory where the system keeps temporary
// files, 10 s until ready, and no listener.
func DefaultConfig() Config {
	return Config{MaxMemory: 256 << 20, TempDir: os.TempDir(), ReadyTimeout: 10 * time.Second}
}

// Validate reports all faults of c.
func (c Config) Validate() error {
	var errs []error
	if c.MaxMemory <= 0 {
		errs = append(errs, fmt.Errorf("embedded NATS: %d bytes of memory are not enough", c.MaxMemory))
	}
	if c.TempDir == "" {
		errs = append(errs, errors.New("embedded NATS: no directory for temporary files"))
	}
	if c.ReadyTimeout <= 0 {
		errs = append(errs, fmt.Errorf("embedded NATS: cannot be ready within %s", c.ReadyTimeout))
	}
	if err := validateListen(c); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// NamePrefix begins the name of every embedded server that keeps nothing, by which its
// clients know that their buckets belong in memory.
const NamePrefix = "smg-embedded-"

// keptPrefix begins the name of one with a StateDir.
const keptPrefix = "smg-kept-"

// Pings find a peer that is gone: pingInterval apart, cut off when pingsOut are
// unanswered.
const (
	pingInterval = 2 * time.Second
	pingsOut     = 2
	// Buckets live in memory, so the store needs no room; 0 would mean most of the disk.
	maxStore = 1 << 20
	// maxKept is the room in a StateDir: some million pins.
	maxKept = 1 << 30
)

// Server is a running embedded server. It is safe for concurrent use. Any number
// of servers can run in one process.
type Server struct {
	server *server.Server
	dir    string   // to be removed at the end, or ""
	lock   *os.File // of a directory that is kept, or nil
	addr   string   // of the listener, as reached from this machine; "" for none
	login  credentials
	stop   func() error
}

// Start starts a server and returns when it is ready. The server's own lines go to
// log: notices and traces at debug, its warnings and errors at warn.
func Start(cfg Config, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{}
	dir, err := s.directory(cfg)
	if err == nil {
		err = s.start(cfg, dir, log)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded NATS: %w", err), s.leave())
	}
	return s, nil
}

// directory makes the one that the server works in.
func (s *Server) directory(cfg Config) (dir string, err error) {
	if cfg.StateDir == "" {
		if s.dir, err = os.MkdirTemp(cfg.TempDir, "smg-nats-"); err != nil {
			err = fmt.Errorf("making its directory: %w", err)
		}
		return s.dir, err
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return "", fmt.Errorf("making its directory: %w", err)
	}
	s.lock, err = lock(cfg.StateDir)
	return cfg.StateDir, err
}

// leave gives the directory up.
func (s *Server) leave() error {
	var errs []error
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	return errors.Join(errs...)
}

func (s *Server) start(cfg Config, dir string, log *slog.Logger) error {
	opts := &server.Options{
		ServerName:             NamePrefix + rand.Text(),
		DontListen:             true,
		NoSigs:                 true,
		NoLog:                  true,
		JetStream:              true,
		StoreDir:               dir,
		JetStreamMaxMemory:     cfg.MaxMemory,
		JetStreamMaxStore:      maxStore,
		DisableJetStreamBanner: true,
		PingInterval:           pingInterval,
		MaxPingsOut:            pingsOut,
	}
	if cfg.StateDir != "" {
		opts.ServerName, opts.JetStreamMaxStore = keptPrefix+rand.Text(), maxKept
	}
	if cfg.Listen != "" {
		s.login = newCredentials(cfg)
		opts.DontListen = false
		opts.CustomClientAuthentication = door{s.login}
		var err error
		if opts.Host, opts.Port, err = parseListen(cfg.Listen); err != nil {
			return err
		}
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("configuring: %w", err)
	}
	lines := &logger{log: log}
	ns.SetLoggerV2(lines, lines.debug(), false, false)

	s.server = ns
	s.stop = sync.OnceValue(s.shutdown)
	ns.Start()
	s.addr = reachable(ns.Addr())
	if cfg.Listen != "" && s.addr == "" {
		return errors.Join(fmt.Errorf("not listening on %s: %s", cfg.Listen, lines.last()), s.stop())
	}
	if !ns.ReadyForConnections(cfg.ReadyTimeout) || !ns.JetStreamEnabled() {
		err := fmt.Errorf("not ready after %s", cfg.ReadyTimeout)
		if last := lines.last(); last != "" {
			err = fmt.Errorf("not ready: %s", last)
		}
		return errors.Join(err, s.stop())
	}
	return nil
}

// InProcessConn is a new connection to the server, in memory. It fails once the
// server has stopped.
func (s *Server) InProcessConn() (net.Conn, error) { return s.server.InProcessConn() }

// Stop ends the server with all it keeps and returns when it has ended and its
// directory is gone, or free for another server if it is one to be kept. Connections are cut. Stopping twice is stopping once.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) shutdown() error {
	s.server.Shutdown()
	s.server.WaitForShutdown()
	if err := s.leave(); err != nil {
		return fmt.Errorf("embedded NATS: leaving its directory: %w", err)
	}
	return nil
}
