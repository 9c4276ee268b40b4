package gateway

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"smg/bootstrap"
	"smg/cmd/internal/flags"
	"smg/ingress"
	"smg/worker"
)

func keeperConfig(cfg *flags.Launch) worker.KeeperConfig {
	k := worker.DefaultKeeperConfig()
	k.Health = worker.HealthConfig{
		Interval: cfg.HealthCheckInterval, Timeout: cfg.HealthCheckTimeout,
		FailureThreshold: cfg.HealthFailureThreshold, SuccessThreshold: cfg.HealthSuccessThreshold,
		Disabled: cfg.DisableHealthCheck,
	}
	// A breaker without retries would only turn errors into other errors.
	k.Breaker.Disabled = true
	return k
}

func registrarConfig(cfg *flags.Launch) bootstrap.Config {
	return bootstrap.Config{
		URLs: cfg.WorkerURLs, Leg: worker.Regular,
		Endpoint: cfg.HealthCheckEndpoint, ProbeTimeout: cfg.HealthCheckTimeout, DisableHealth: cfg.DisableHealthCheck,
		Delay: cfg.WorkerStartupDelay, Interval: cfg.WorkerStartupCheckInterval, Timeout: cfg.WorkerStartupTimeout,
		Retry: cfg.HealthCheckInterval,
	}
}

func ingressConfig(cfg *flags.Launch) ingress.Config {
	c := ingress.DefaultConfig()
	c.MaxPayloadBytes = cfg.MaxPayloadSize
	c.MaxBufferedBytes = cfg.MaxBufferedBytesTotal
	c.MaxJSONDepth = cfg.MaxJSONDepth
	c.MaxHeaderBytes = cfg.MaxHeaderBytes
	c.ReadHeaderTimeout = cfg.ReadHeaderTimeout
	c.RequestTimeout = cfg.RequestTimeout
	c.Grace = cfg.ShutdownGracePeriod
	c.RoutingKeyHeaders = cfg.RoutingKeyHeaders
	return c
}

// listen binds host:port for the flag that names the port.
func listen(flag, host string, port int) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	f := &flags.Fault{What: fmt.Sprintf("cannot listen on %s: %v", addr, err), Where: fmt.Sprintf("--%s %d", flag, port), Code: flags.ExitFailure}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f.What = fmt.Sprintf("port %d of %s is in use", port, host)
		f.Hint = fmt.Sprintf("stop what listens there, or choose another port with --%s", flag)
	case errors.Is(err, syscall.EACCES):
		f.What = fmt.Sprintf("no permission to listen on %s", addr)
		f.Hint = fmt.Sprintf("choose a port above 1023 with --%s", flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.As(err, &dns):
		f.What = fmt.Sprintf("%s is no address of this machine", host)
		f.Hint = "give an address of this machine, 127.0.0.1 or 0.0.0.0 with the host flag"
	}
	return nil, f
}
