package launcher

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
)

const (
	maxPort = 65535
	// portStep leaves room between engines: some derive neighbouring ports from
	// their own.
	portStep = 3
)

// portTest says whether a port is free. An error means that host itself is unusable.
type portTest func(host string, port int) (bool, error)

// portSearch says where ports are looked for.
type portSearch struct {
	base, step int
	width      int // neighbouring ports that go together
	host       string
	reserved   []int
	flag       string // sets base; empty where nobody can
}

// pick finds n ports from base upwards: after a port that was taken it goes on step
// higher, after a busy or reserved one with the next. The result depends only on
// what is busy, so URLs stay the same from start to start.
func (s portSearch) pick(n int, free portTest) ([]int, error) {
	ports := make([]int, 0, n)
	for port := s.base; len(ports) < n; {
		if port+s.width-1 > maxPort {
			return nil, s.exhausted(n, len(ports))
		}
		busy, err := s.busy(port, free)
		if err != nil {
			return nil, &LaunchError{
				what:   "engines cannot listen on " + s.host,
				detail: []string{"--worker-host " + s.host + ": " + err.Error()},
				hint:   "give --worker-host an address of this machine",
			}
		}
		if busy != 0 {
			port = busy + 1
			continue
		}
		ports = append(ports, port)
		port += s.step
	}
	return ports, nil
}

// busy is the last of the ports that go together from first on which cannot be had,
// or 0.
func (s portSearch) busy(first int, free portTest) (int, error) {
	for port := first + s.width - 1; port >= first; port-- {
		if slices.Contains(s.reserved, port) {
			return port, nil
		}
		if ok, err := free(s.host, port); err != nil || !ok {
			return port, err
		}
	}
	return 0, nil
}

func (s portSearch) exhausted(n, found int) error {
	where, hint := fmt.Sprintf("%d free up to %d", found, maxPort), "start fewer engines"
	if s.flag != "" {
		where = fmt.Sprintf("%s %d: %s", s.flag, s.base, where)
		hint = "give a lower " + s.flag + ", or start fewer engines"
	}
	return &LaunchError{what: fmt.Sprintf("could not find %d ports from %d", n, s.base), detail: []string{where}, hint: hint}
}

// portFree tests by binding, on loopback and on host. It is racy by nature; an
// engine that then cannot bind exits and is reported as such.
func portFree(host string, port int) (bool, error) {
	hosts := []string{"127.0.0.1"}
	if host != hosts[0] {
		hosts = append(hosts, host)
	}
	for _, h := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(h, strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := l.Close(); err != nil {
			return false, err
		}
	}
	return true, nil
}
