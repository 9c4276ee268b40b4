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

// pickPorts finds n ports from base upwards: after a port that was taken it goes on
// portStep higher, after a busy or reserved one with the next. The result depends
// only on what is busy, so URLs stay the same from start to start.
func pickPorts(n, base int, host string, reserved []int, free func(host string, port int) (bool, error)) ([]int, error) {
	ports := make([]int, 0, n)
	for port := base; len(ports) < n; {
		if port > maxPort {
			return nil, &LaunchError{
				what:   fmt.Sprintf("could not find %d ports from %d", n, base),
				detail: []string{fmt.Sprintf("--worker-base-port %d: %d free up to %d", base, len(ports), maxPort)},
				hint:   "give a lower --worker-base-port, or start fewer engines with --data-parallel-size",
			}
		}
		if slices.Contains(reserved, port) {
			port++
			continue
		}
		ok, err := free(host, port)
		if err != nil {
			return nil, &LaunchError{
				what:   "engines cannot listen on " + host,
				detail: []string{"--worker-host " + host + ": " + err.Error()},
				hint:   "give --worker-host an address of this machine",
			}
		}
		if !ok {
			port++
			continue
		}
		ports = append(ports, port)
		port += portStep
	}
	return ports, nil
}

// portFree tests by binding, on loopback and on host. It is racy by nature; an
// engine that then cannot bind exits and is reported as such. An error means that
// host itself is unusable.
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
