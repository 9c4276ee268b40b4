package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/cmd/internal/service"
	"smg/launcher"
)

// family is the child processes of a gateway.
type family struct {
	selectors []*child
	ingress   *child
	client    *http.Client
}

// child is one of them.
type child struct {
	*launcher.Service
	files []*os.File // that it inherits
	page  string     // where it has its metrics
}

func (f *family) all() []*child { return append(slices.Clone(f.selectors), f.ingress) }

// hurry has the ingress drop what it waits for; the others wait for nothing.
func (f *family) hurry() { f.ingress.Hurry() }

func (f *family) kill() {
	for _, c := range f.all() {
		c.Kill()
	}
}

// newFamily makes the children, which do nothing yet, and gives them their listeners.
func (g *Gateway) newFamily(busURL string) (*family, error) {
	f := &family{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
	env := append(slices.DeleteFunc(os.Environ(), private), "SMG_NATS_URL="+busURL)
	if g.pprof != nil {
		env = append(env, service.EnvProfiles+"=1")
	}
	if g.secret != "" {
		env = append(env, "SMG_CLUSTER_SECRET="+string(g.secret))
	}
	for _, leg := range legsOf(g.cfg) {
		c, err := g.child(f, "selector "+leg.String(), "smg-selector", g.cmd.SelectorArgs(leg, policyOf(g.cfg, leg)), slices.Concat(env, g.cmd.SelectorSecrets()), nil, nil)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.selectors = append(f.selectors, c)
	}
	c, err := g.child(f, "ingress", "smg-ingress", g.cmd.IngressArgs(), slices.Concat(env, g.cmd.IngressSecrets()), g.api, g.health)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	f.ingress = c
	return f, nil
}

// private are the variables that are not a child's: it is given flags for them.
func private(v string) bool {
	return strings.HasPrefix(v, "SMG_") && !strings.HasPrefix(v, "SMG_BIN_DIR=")
}

// stopSlack is what a child gets to stop beyond what it waits for.
const stopSlack = 10 * time.Second

// child makes one of the family, which inherits a listener for its metrics and, if
// it is to have one, the API's, and that of probes.
func (g *Gateway) child(f *family, name, program string, args, env []string, api, health net.Listener) (*child, error) {
	path, err := launcher.Program(program, env)
	if err != nil {
		return nil, err
	}
	page, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("binding the metrics of %s: %w", name, err)
	}
	c := &child{page: apiURL(page)}
	cfg := launcher.DefaultServiceConfig()
	cfg.Name, cfg.Argv, cfg.Color, cfg.JSON = name, append([]string{path}, args...), g.con.Color, g.con.JSON
	cfg.Alive = func(ctx context.Context) error {
		return fetch(ctx, f.client, c.page+"/health", func(*http.Response) error { return nil })
	}
	cfg.StopTimeout = stopSlack
	cfg.Env = slices.Clone(env)
	index := len(f.selectors)
	for _, given := range []struct {
		variable string
		listener net.Listener
	}{{service.EnvMetrics, page}, {service.EnvListen, api}, {service.EnvHealth, health}} {
		if given.listener == nil {
			continue
		}
		file, err := handOver(given.listener)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("passing a listener on to %s: %w", name, err), c.close())
		}
		cfg.Env = append(cfg.Env, given.variable+"="+strconv.Itoa(service.FirstFile+len(c.files)))
		c.files = append(c.files, file)
	}
	if api != nil {
		cfg.StopTimeout += g.cfg.ShutdownGracePeriod
		// Once the child closes it, nobody is to listen any more.
		cfg.Stopping = func() { _ = c.close() } // closing a listener's copy loses nothing
	}
	cfg.Files = c.files
	c.Service = launcher.NewService(cfg, index, g.con.Console, g.log)
	return c, nil
}

// handOver turns a listener into a file that children inherit.
func handOver(l net.Listener) (*os.File, error) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("a listener of %T has no file", l)
	}
	f, err := tcp.File()
	return f, errors.Join(err, l.Close())
}

func (c *child) close() error {
	var errs []error
	for _, f := range c.files {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// close lets go of what the children inherit.
func (f *family) close() error {
	var errs []error
	for _, c := range f.selectors {
		errs = append(errs, c.close())
	}
	if f.ingress != nil {
		errs = append(errs, f.ingress.close())
	}
	f.client.CloseIdleConnections()
	return errors.Join(errs...)
}

// fetch asks a child and has its answer read.
func fetch(ctx context.Context, client *http.Client, url string, read func(*http.Response) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	} else {
		err = read(resp)
	}
	return errors.Join(err, resp.Body.Close())
}

var (
	upDesc = prometheus.NewDesc("smg_service_up",
		"Whether a child process answers (1) or not (0).", []string{"service"}, nil)
	restartsDesc = prometheus.NewDesc("smg_service_restarts_total",
		"How often a child process was started again.", []string{"service"}, nil)
)

// register adds what is known of the children to the parent's own metrics.
func (f *family) register(reg prometheus.Registerer) error { return reg.Register(f) }

// Describe implements [prometheus.Collector].
func (f *family) Describe(ch chan<- *prometheus.Desc) { ch <- upDesc; ch <- restartsDesc }

// Collect implements [prometheus.Collector].
func (f *family) Collect(ch chan<- prometheus.Metric) {
	for _, c := range f.all() {
		up := 0.0
		if c.Alive() {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, c.Name())
		ch <- prometheus.MustNewConstMetric(restartsDesc, prometheus.CounterValue, float64(c.Restarts()), c.Name())
	}
}
