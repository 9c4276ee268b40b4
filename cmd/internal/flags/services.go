package flags

import (
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"smg/policy"
	"smg/worker"
)

// Topology is how the services are grouped into processes.
type Topology uint8

// The topologies.
const (
	// Single has all services in one process.
	Single Topology = iota
	// Split has a child process for each service.
	Split
)

// String is the topology's name.
func (t Topology) String() string {
	if t == Split {
		return "split"
	}
	return "single"
}

// Bus is where the services meet.
type Bus struct {
	// URLs are those of an external NATS. Without any, a server is built in, which
	// listens on Listen, if that is not empty, for clients that have User and Password,
	// and keeps its buckets in StateDir, if that is not empty.
	URLs     []string
	StateDir string
	Listen   string
	User     string
	Password string
	// Replicas is how many copies of buckets the external NATS keeps, 0 for what its
	// size allows. Creds and CA are files to connect to it with, or empty.
	Replicas int
	Creds    string
	CA       string
}

// External says whether somebody else runs the server.
func (b Bus) External() bool { return len(b.URLs) > 0 }

// Servers are the URLs without what is secret in them.
func (b Bus) Servers() string {
	all := make([]string, len(b.URLs))
	for i, u := range b.URLs {
		all[i] = redact(u)
	}
	return strings.Join(all, ",")
}

const (
	degradedLocal = "local"
	degradedFail  = "fail"
)

// setDegraded takes what to do without a selector.
func setDegraded(s *Serve, v string) error {
	var how string
	err := setEnum(func(*Serve) *string { return &how }, "way of degraded selection", []string{degradedLocal, degradedFail})(s, v)
	s.FailDegraded = how == degradedFail
	return err
}

// setTopology takes the name of a topology.
func setTopology(s *Serve, v string) error {
	var name string
	err := setEnum(func(*Serve) *string { return &name }, "topology", []string{Single.String(), Split.String()})(s, v)
	s.Topology = Single
	if name == Split.String() {
		s.Topology = Split
	}
	return err
}

// setLeg takes the name of a leg.
func setLeg(s *Serve, v string) (err error) {
	if s.Leg, err = worker.ParseLeg(v); err != nil {
		return noChoice([]string{"regular", "encode", "prefill", "decode"}, "%q is not a leg", v)
	}
	return nil
}

// natsSchemes are those that a NATS server can be reached by.
func natsSchemes() []string { return []string{"nats", "tls"} }

// setNATSURLs takes the servers of one NATS. What is wrong is told without the URL,
// which may hold a password.
func setNATSURLs(s *Serve, v string) error {
	s.Bus.URLs = nil
	for raw := range strings.SplitSeq(v, ",") {
		raw = strings.TrimSpace(raw)
		if !strings.Contains(raw, "://") {
			raw = "nats://" + raw
		}
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" || !slices.Contains(natsSchemes(), u.Scheme) || strings.Trim(u.Path, "/") != "" {
			return &badValue{"not the address of a NATS server", "write nats://HOST:4222 or tls://HOST:4222, with a comma between several"}
		}
		s.Bus.URLs = append(s.Bus.URLs, raw)
	}
	return nil
}

// setNATSListen takes the built-in server's address, and who may connect to it.
func setNATSListen(s *Serve, v string) error {
	s.Bus.User, s.Bus.Password = "", ""
	if i := strings.LastIndexByte(v, '@'); i >= 0 {
		user, password, ok := strings.Cut(v[:i], ":")
		if !ok || user == "" || password == "" {
			return &badValue{"what stands before the @ are not credentials", "write USER:PASSWORD@HOST:PORT"}
		}
		s.Bus.User, s.Bus.Password, v = user, password, v[i+1:]
	}
	if _, err := strconv.Atoi(v[strings.LastIndexByte(v, ':')+1:]); err != nil {
		// It may be credentials without their @, and must not be repeated.
		return &badValue{"what stands at its end is no port", "write USER:PASSWORD@HOST:PORT"}
	}
	s.Bus.Listen = v
	return nil
}

// needed is what a service cannot do without on its command line.
func (l *Launch) needed(command string, typed map[string]string) error {
	if _, ok := typed["leg"]; !ok && command == nameSelector {
		return usage("", "add --leg regular, encode, prefill or decode", "--leg is required")
	}
	if !l.Bus.External() {
		return usage("", "add --nats-url nats://HOST:4222 or set SMG_NATS_URL; smg launch needs none", "--nats-url is required")
	}
	return nil
}

// checkBus refuses what does not go together, and files that cannot be read.
func (l *Launch) checkBus(c *checker) {
	b := l.Bus
	if b.External() && b.Listen != "" {
		c.add("nats-listen", b.Listen, "leave one of them out", "there is no built-in NATS server with --%snats-url", c.prefix)
	}
	if b.External() && b.StateDir != "" {
		c.add("state-dir", b.StateDir, "leave one of them out", "there is no built-in NATS server with --%snats-url", c.prefix)
	}
	hint := "add --" + c.prefix + "nats-url, or leave it out"
	for _, f := range []struct{ flag, file string }{{"nats-creds", b.Creds}, {"nats-tls-ca", b.CA}} {
		switch {
		case f.file == "":
		case !b.External():
			c.add(f.flag, f.file, hint, "the built-in NATS server has no use for it")
		default:
			if _, err := os.ReadFile(f.file); err != nil {
				c.add(f.flag, f.file, "give the path of a file that can be read", "%s", err.Error())
			}
		}
	}
	if b.External() {
		return
	}
	if b.Replicas != 0 {
		c.add("nats-replicas", strconv.Itoa(b.Replicas), hint, "the built-in NATS server keeps one copy")
	}
	c.checkFolder("state-dir", b.StateDir)
	l.checkNATSListen(c)
}

// checkNATSListen judges the built-in server's address.
func (l *Launch) checkNATSListen(c *checker) {
	if l.Bus.Listen == "" {
		return
	}
	host, port, err := net.SplitHostPort(l.Bus.Listen)
	_, numberErr := strconv.ParseUint(port, 10, 16)
	if err != nil || numberErr != nil || host == "" {
		c.add("nats-listen", l.Bus.Listen, "write USER:PASSWORD@HOST:PORT, such as smg:secret@127.0.0.1:4222", "not an address to listen on")
		return
	}
	if l.Bus.User == "" && l.Topology == Single {
		c.add("nats-listen", l.Bus.Listen, "write USER:PASSWORD@"+l.Bus.Listen, "services that join need credentials")
	}
}

// checkSelector is check for the selector of one leg. A parent has judged what a
// child's leg inherits.
func (l *Launch) checkSelector(c *checker, child bool) {
	l.checkPrometheusHost(c)
	switch {
	case l.Leg == worker.Decode && l.Policy == policy.Bucket && !child:
		c.add("policy", l.Policy, decodePolicyHint(), "bucket serves the prefill leg only")
	case l.Leg == worker.Encode && !slices.Contains(encodePolicies(), l.Policy):
		c.add("policy", l.Policy, "use one of "+strings.Join(encodePolicies(), ", "), "policy %s is not for the encode leg", l.Policy)
	}
	c.checkSettings(l.PolicyConfig(l.Policy))
	l.Breaker.check(c)
	l.checkCommon(c)
}
