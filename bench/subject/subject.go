package subject

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Config says what to run.
type Config struct {
	// Name is for messages.
	Name string
	// Path and Args are the command; Args is given the address to listen on.
	Path string
	Args func(addr netip.AddrPort) []string
	// Ready is a path that answers GET with 200 once the subject is ready. If it is
	// empty, a subject that takes connections is ready.
	Ready string
	// Within bounds the start, Grace the stop before the subject is killed.
	Within, Grace time.Duration
}

// Process is a subject that runs. It is safe for concurrent use.
type Process struct {
	cfg   Config
	addr  netip.AddrPort
	cmd   *exec.Cmd
	said  *tail
	ended chan struct{} // closed once the process has been waited for
	err   error         // of the wait, once ended
}

// attempts is how often a subject is started that ends at once: somebody else may
// have taken its port.
const attempts = 3

// ErrEnded says that a subject has ended by itself.
var ErrEnded = errors.New("the process ended")

// Start runs a subject and returns once it is ready. If it does not get ready, it is
// ended, and the error carries the end of what it said.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	for attempt := 1; ; attempt++ {
		p, err := start(ctx, cfg)
		if err == nil {
			return p, nil
		}
		if attempt == attempts || !errors.Is(err, ErrEnded) {
			return nil, fmt.Errorf("starting %s: %w", cfg.Name, err)
		}
	}
}

func start(ctx context.Context, cfg Config) (*Process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &Process{cfg: cfg, addr: addr, said: new(tail), ended: make(chan struct{})}
	p.cmd = exec.Command(cfg.Path, cfg.Args(addr)...)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.SysProcAttr = attributes()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	if err := p.await(ctx); err != nil {
		return nil, errors.Join(err, p.Stop(), p.complaint())
	}
	return p, nil
}

// complaint is the end of what the subject said, as an error.
func (p *Process) complaint() error {
	text := strings.TrimSpace(p.said.String())
	if text == "" {
		return nil
	}
	return fmt.Errorf("it said: %s", text)
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Addr is where it listens.
func (p *Process) Addr() netip.AddrPort { return p.addr }

// Ended is closed when the process has ended, by itself or stopped.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stop asks the process to end, kills it after its grace, and returns when it has
// ended. How it ended is no error: it was told to. Stop may be called repeatedly.
func (p *Process) Stop() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	t := time.NewTimer(p.cfg.Grace)
	defer t.Stop()
	select {
	case <-p.ended:
		return nil
	case <-t.C:
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	return nil
}

func (p *Process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s (pid %d): %w", s, p.cfg.Name, p.PID(), err)
	}
	return nil
}

// askEvery is how often a subject is asked whether it is ready.
const askEvery = 20 * time.Millisecond

// await returns when the subject is ready.
func (p *Process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.Within, fmt.Errorf("not ready within %s", p.cfg.Within))
	defer cancel()
	t := time.NewTicker(askEvery)
	defer t.Stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	for {
		if p.ready(ctx, client) {
			return nil
		}
		select {
		case <-t.C:
		case <-p.ended:
			return fmt.Errorf("%w before it was ready: %w", ErrEnded, p.exit())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// exit is how the ended process ended.
func (p *Process) exit() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

func (p *Process) ready(ctx context.Context, client *http.Client) bool {
	if p.cfg.Ready == "" {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.addr.String())
		return err == nil && c.Close() == nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr.String()+p.cfg.Ready, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// freeAddr finds a port that nobody listens on now.
func freeAddr() (netip.AddrPort, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("looking for a free port: %w", err)
	}
	addr, err := netip.ParseAddrPort(l.Addr().String())
	return addr, errors.Join(err, l.Close())
}
