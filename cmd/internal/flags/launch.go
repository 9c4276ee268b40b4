package flags

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"smg/policy"
	"smg/worker"
)

// URLRule judges a worker URL and returns its canonical form.
type URLRule func(raw string) (canonical string, err error)

// Launch is the configuration of a gateway.
type Launch struct {
	// Host and Port are where the API listens.
	Host string
	Port int
	// Mode decides which workers are used: WorkerURLs in Regular; Prefill and Decode in
	// PD; Encode too in EPD.
	Mode Mode
	// WorkerURLs, Prefill, Decode and Encode are the engines to route to, as typed, in
	// order.
	WorkerURLs []string
	Prefill    []LegWorker
	Decode     []string
	Encode     []LegWorker

	// WorkerStartupTimeout bounds the wait for a worker that does not answer yet,
	// which is probed after WorkerStartupDelay, then every WorkerStartupCheckInterval.
	WorkerStartupTimeout       time.Duration
	WorkerStartupDelay         time.Duration
	WorkerStartupCheckInterval time.Duration
	// UpstreamPoolIdleTimeout is how long an unused connection to a worker is kept; 0
	// means for ever.
	UpstreamPoolIdleTimeout time.Duration

	// Policy is the policy's name; PolicySet says that the user chose it.
	Policy    string
	PolicySet bool
	// PrefillPolicy, DecodePolicy and EncodePolicy are what the legs have in the end:
	// the first two are Policy unless the user chose another.
	PrefillPolicy    string
	PrefillPolicySet bool
	DecodePolicy     string
	DecodePolicySet  bool
	EncodePolicy     string
	// Policies are the settings of all policies, and of sticky sessions. Its Policy is
	// empty: see PolicyConfig.
	Policies policy.Config
	// EnableIGW says that workers come later, so that nothing is asked of their number
	// at start.
	EnableIGW bool
	// RoutingKeyHeaders are lower-case header names, the first present one is read.
	RoutingKeyHeaders []string

	// LoadMonitorInterval is the pause between two questions for a worker's load.
	// DisableLoadMonitoring leaves them out where nobody needs the answers;
	// EngineMetrics is somebody who does.
	LoadMonitorInterval   time.Duration
	DisableLoadMonitoring bool
	EngineMetrics         bool
	// OverloadProtection says that it was asked for without a limit. OverloadWaiting,
	// in requests, and OverloadTokenUsage, a share of the KV cache, are the loads from
	// which on a worker gets nothing; 0 is no limit.
	OverloadProtection bool
	OverloadWaiting    int
	OverloadTokenUsage float64

	KVEvents  KVEvents
	Sharing   Sharing
	Retry     Retry
	Breaker   Breaker
	Models    Models
	Requests  Requests
	Admission Admission
	Auth      Auth
	Trace     Trace

	HealthCheckInterval    time.Duration
	HealthCheckTimeout     time.Duration
	HealthFailureThreshold int
	HealthSuccessThreshold int
	HealthCheckEndpoint    string
	DisableHealthCheck     bool

	// RequestTimeout bounds a whole request, ShutdownGracePeriod the whole stop.
	RequestTimeout      time.Duration
	ShutdownGracePeriod time.Duration
	// MaxPayloadSize, MaxBufferedBytesTotal and MaxHeaderBytes are in bytes.
	MaxPayloadSize        int64
	MaxBufferedBytesTotal int64
	MaxHeaderBytes        int
	ReadHeaderTimeout     time.Duration
	MaxJSONDepth          int

	LogLevel slog.Level
	LogJSON  bool
	NoColor  bool

	// PrometheusPort 0 takes a free port.
	PrometheusHost string
	PrometheusPort int

	// Cluster is part of every message subject.
	Cluster  string
	Topology Topology
	Bus      Bus

	// PlanTimeout is how long a selector may take to answer. Without an answer the
	// ingress chooses by itself, or refuses the request if FailDegraded.
	PlanTimeout  time.Duration
	FailDegraded bool

	// Record is the file to write a recording to, "" for none. RecordPrompts has
	// prompts written as they are.
	Record        string
	RecordPrompts bool

	// DryRun asks what would be done.
	DryRun bool

	// Leg is what the selector command selects for.
	Leg worker.Leg
}

// DefaultLaunch is launch without any flag.
func DefaultLaunch() Launch {
	s := defaults(InLaunch)
	s.settle()
	return s.Launch
}

// defaults fills a configuration from the table.
func defaults(scope Scope) *Serve {
	s := &Serve{}
	s.Engines = engineDefaults()
	table := Table()
	for i := range table {
		d := &table[i]
		if d.In&scope == 0 || d.Default == "" || d.set == nil {
			continue
		}
		if err := d.set(s, d.Default); err != nil {
			panic(fmt.Sprintf("default of --%s: %v", d.Name, err)) // a test goes through the table
		}
	}
	return s
}

// checker gathers faults. prefix is what the flags of the gateway carry, given what was
// said, on the command line or by variables.
type checker struct {
	prefix string
	given  []given
	faults *multierror.Error
}

// add reports a value of the flag name, without dashes, which gets the prefix.
func (c *checker) add(name, value, hint, format string, args ...any) {
	c.addAs("--"+c.prefix+name, value, hint, format, args...)
}

// addAs is add for a flag that is never prefixed.
func (c *checker) addAs(flag, value, hint, format string, args ...any) {
	c.addWhere(c.as(flag, value), hint, format, args...)
}

func (c *checker) addWhere(where, hint, format string, args ...any) {
	c.faults = multierror.Append(c.faults, &Fault{What: fmt.Sprintf(format, args...), Where: where, Hint: hint, Code: ExitFailure})
}

// as is a flag, with its dashes, and its value as whoever gave them finds them again: a
// variable, where one has set the flag. It hides what a variable keeps secret.
func (c *checker) as(flag, value string) string {
	for _, g := range c.given {
		if g.name != strings.TrimPrefix(flag, "--") || strings.HasPrefix(g.where, "-") {
			continue
		}
		if variable, _, shown := strings.Cut(g.where, "="); shown {
			return variable + "=" + value
		}
		return g.where
	}
	return flag + " " + cmp.Or(value, "''")
}

func (l *Launch) check(c *checker, rule URLRule, n headcount) {
	l.checkAddresses(c)
	seen := map[string]bool{}
	for _, raw := range l.WorkerURLs {
		c.checkURL("worker-urls", raw, redact(raw), rule, seen)
	}
	l.checkLegs(c, rule)
	l.checkPolicies(c, n)
	l.Sharing.check(c)
	l.Retry.check(c)
	l.Breaker.check(c)
	l.Models.check(c)
	l.Requests.check(c, l.MaxPayloadSize)
	l.Admission.check(c)
	c.checkPositive("plan-timeout-ms", l.PlanTimeout.Milliseconds())
	l.checkCommon(c)
	l.checkPositive(c)
}

// checkCommon judges what every service has.
func (l *Launch) checkCommon(c *checker) {
	if !strings.HasPrefix(l.HealthCheckEndpoint, "/") {
		c.add("health-check-endpoint", l.HealthCheckEndpoint, "write /"+l.HealthCheckEndpoint, "a path must start with /")
	}
	if l.Cluster == "" || strings.ContainsFunc(l.Cluster, func(r rune) bool { return !nameRune(r) }) {
		c.add("cluster", l.Cluster, "use letters, digits, - and _", "not a name that a message subject can carry")
	}
	l.checkBus(c)
	l.checkRecord(c)
	l.KVEvents.check(c)
	l.Auth.check(c)
	l.Trace.check(c)
	c.checkPositive("health-check-interval-secs", int64(l.HealthCheckInterval))
	c.checkPositive("health-check-timeout-secs", int64(l.HealthCheckTimeout))
	c.checkPositive("health-failure-threshold", int64(l.HealthFailureThreshold))
	c.checkPositive("load-monitor-interval", int64(l.LoadMonitorInterval))
	c.checkPositive("health-success-threshold", int64(l.HealthSuccessThreshold))
}

func (l *Launch) checkAddresses(c *checker) {
	c.checkHost("--host", "--port", l.Host)
	if l.Port == 0 {
		c.addAs("--port", "0", "give a port from 1 to 65535", "a stable port is required")
	}
	l.checkPrometheusHost(c)
	l.checkListeners(c)
}

func (l *Launch) checkPrometheusHost(c *checker) {
	c.checkHost("--"+c.prefix+"prometheus-host", "--"+c.prefix+"prometheus-port", l.PrometheusHost)
}

// checkHost refuses what is no address alone. portFlag is where its port is given.
func (c *checker) checkHost(flag, portFlag, host string) {
	if host == "" {
		c.addAs(flag, "", "write 0.0.0.0 for all addresses, 127.0.0.1 for this machine alone", "an address is needed")
		return
	}
	if _, err := netip.ParseAddr(host); err == nil || !strings.ContainsAny(host, ":/[]") {
		return
	}
	rest := host
	if _, after, ok := strings.Cut(host, "://"); ok {
		rest = after
	}
	rest, _, _ = strings.Cut(rest, "/")
	if alone, port, err := net.SplitHostPort(rest); err == nil && alone != "" && port != "" {
		c.addAs(flag, redact(host), "write "+flag+" "+alone+" "+portFlag+" "+port, "an address alone is needed, without a port")
		return
	}
	c.addAs(flag, redact(host), "write an address of this machine, such as 127.0.0.1 or ::1", "not an address or a host name")
}

// checkURL judges one worker of the flag name, which shows value. seen are the
// workers before it.
func (c *checker) checkURL(name, raw, value string, rule URLRule, seen map[string]bool) {
	if all := strings.Split(redact(raw), ","); len(urlList(raw)) > 1 {
		hint := "write blanks between them: --" + c.prefix + name + " " + strings.Join(all, " ")
		if name != "worker-urls" {
			hint = "write --" + c.prefix + name + " in front of each"
		}
		c.add(name, value, hint, "these are %d URLs in one argument", len(all))
		return
	}
	canonical, err := rule(raw)
	if err != nil {
		what, hint := err.Error(), ""
		if raw != "" {
			what = strings.ReplaceAll(what, raw, redact(raw))
			if fixed := "http://" + redact(raw); !strings.Contains(raw, "://") && !strings.Contains(what, fixed) {
				hint = "write " + fixed
			}
		}
		c.add(name, value, hint, "%s", what)
		return
	}
	if seen[canonical] {
		c.add(name, value, "leave one of them out", "the same worker is given twice")
	}
	seen[canonical] = true
}

// checkPositive refuses the zeros that would switch off what the gateway needs.
func (l *Launch) checkPositive(c *checker) {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"worker-startup-timeout-secs", int64(l.WorkerStartupTimeout)},
		{"worker-startup-check-interval", int64(l.WorkerStartupCheckInterval)},
		{"request-timeout-secs", int64(l.RequestTimeout)},
		{"max-payload-size", l.MaxPayloadSize},
		{"max-buffered-bytes-total", l.MaxBufferedBytesTotal},
		{"max-header-bytes", int64(l.MaxHeaderBytes)},
		{"read-header-timeout-secs", int64(l.ReadHeaderTimeout)},
		{"max-json-depth", int64(l.MaxJSONDepth)},
	} {
		c.checkPositive(f.name, f.value)
	}
}

func (c *checker) checkPositive(name string, value int64) {
	if value <= 0 {
		c.add(name, "0", "give 1 or more", "must be more than 0")
	}
}

// redact hides the user name and password of a URL, and of each where there are several
// with commas between them.
func redact(raw string) string {
	if all := urlList(raw); len(all) > 1 {
		for i := range all {
			all[i] = redact(all[i])
		}
		return strings.Join(all, ",")
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		scheme, rest = "", raw
	} else {
		scheme += "://"
	}
	authority, path, hasPath := strings.Cut(rest, "/")
	i := strings.LastIndexByte(authority, '@')
	if i < 0 {
		return raw
	}
	out := scheme + "***" + authority[i:]
	if hasPath {
		out += "/" + path
	}
	return out
}

// urlList takes apart what stands before and behind commas, if a scheme follows the comma.
func urlList(raw string) []string {
	var all []string
	for part := range strings.SplitSeq(raw, ",") {
		if len(all) > 0 && !strings.Contains(part, "://") {
			all[len(all)-1] += "," + part
			continue
		}
		all = append(all, part)
	}
	return all
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}
