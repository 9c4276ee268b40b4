package service

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"smg/cmd/internal/flags"
)

// Listen binds host:port. The flags that name them are flag+"host" and flag+"port".
func Listen(flag, host string, port int) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	f := &flags.Fault{
		What: fmt.Sprintf("cannot listen on %s: %v", addr, err), Where: fmt.Sprintf("%sport %d", flag, port), Code: flags.ExitFailure,
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f.What = fmt.Sprintf("port %d of %s is in use", port, host)
		if name, pid, ok := holder(port); ok {
			f.What += fmt.Sprintf(" by %s (pid %d)", name, pid)
		}
		f.Hint = fmt.Sprintf("stop what listens there, or choose another port with %sport", flag)
	case errors.Is(err, syscall.EACCES):
		f.What = "no permission to listen on " + addr
		f.Hint = fmt.Sprintf("choose a port above 1023 with %sport", flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.As(err, &dns):
		f.What = host + " is no address of this machine"
		if dns != nil {
			f.What = fmt.Sprintf("the host name %s cannot be resolved", host)
		}
		f.Where = flag + "host " + host
		f.Hint = fmt.Sprintf("give an address of this machine, such as 127.0.0.1 or 0.0.0.0, with %shost", flag)
	}
	return nil, f
}

// Free says why nobody could listen on addr, HOST:PORT, which is the value of a flag, with
// its dashes. It is nil where addr is empty or names no port.
func Free(flag, addr string) error {
	host, text, err := net.SplitHostPort(addr)
	port, bad := strconv.ParseUint(text, 10, 16)
	if err != nil || bad != nil || port == 0 {
		return nil // there is nothing to ask for
	}
	l, err := Listen(flag, host, int(port))
	if err == nil {
		return l.Close()
	}
	if f, ok := errors.AsType[*flags.Fault](err); ok {
		f.Where, f.Hint = flag+" "+addr, "give another address with "+flag
	}
	return err
}
