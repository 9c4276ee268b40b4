package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// The two networks, made of addresses that are set aside for documentation: they
// exist in no network but this one.
const (
	nearBus, farBus   = "192.0.2.1", "192.0.2.2"
	nearData, farData = "198.51.100.1", "198.51.100.2"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// inNamespace runs this program once more in a network namespace of its own, so that
// neither its addresses nor its faults are seen outside. It says whether that began.
func inNamespace(ctx context.Context, args []string, stdout, stderr io.Writer) (began bool, err error) {
	own, err := os.Executable()
	if err != nil {
		return false, err
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false, err
		}
	}
	attributes := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	probe := exec.CommandContext(ctx, "ip", "link", "set", "lo", "up")
	probe.SysProcAttr = attributes
	if out, err := probe.CombinedOutput(); err != nil {
		return false, fmt.Errorf("a network namespace: %w: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, own, args...)
	cmd.SysProcAttr, cmd.Env = attributes, append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return true, cmd.Run()
}

// network is two hosts with two networks between them, one of which can be cut.
type network struct {
	near, far *host
	holder    *exec.Cmd
	stdin     io.Closer
}

// newNetwork makes the hosts, in a namespace of this program's own; elsewhere there
// is one host, and nothing to cut.
func newNetwork() (*network, error) {
	if os.Getenv(insideVariable) == "" {
		h := &host{bus: loopback, data: loopback}
		return &network{near: h, far: h}, nil
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &network{holder: exec.Command(own, hostVerb)}
	n.holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if n.stdin, err = n.holder.StdinPipe(); err != nil {
		return nil, err
	}
	if err := n.holder.Start(); err != nil {
		return nil, fmt.Errorf("the namespace of a second host: %w", err)
	}
	pid := strconv.Itoa(n.holder.Process.Pid)
	n.near = &host{bus: nearBus, data: nearData}
	n.far = &host{bus: farBus, data: farData, enter: []string{"nsenter", "--net=/proc/" + pid + "/ns/net", "--"}}
	for _, c := range []struct {
		on   *host
		line string
	}{
		{n.near, "ip link set lo up"},
		{n.far, "ip link set lo up"},
		{n.near, "ip link add bus type veth peer name bus netns " + pid},
		{n.near, "ip link add data type veth peer name data netns " + pid},
		{n.near, "ip address add " + nearBus + "/24 dev bus"},
		{n.near, "ip address add " + nearData + "/24 dev data"},
		{n.far, "ip address add " + farBus + "/24 dev bus"},
		{n.far, "ip address add " + farData + "/24 dev data"},
		{n.near, "ip link set bus up"},
		{n.near, "ip link set data up"},
		{n.far, "ip link set bus up"},
		{n.far, "ip link set data up"},
	} {
		if err := c.on.do(c.line); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	return n, nil
}

func (h *host) do(line string) error {
	argv := h.command(strings.Fields(line))
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return nil
}

// split says whether there are two hosts.
func (n *network) split() bool { return n.near != n.far }

// cut lets every packet of the bus's network vanish, in both directions and without a
// word, as a dead switch does: each side sends to a hardware address that nobody has.
func (n *network) cut() error {
	const nobody = "02:00:00:00:00:01"
	return errors.Join(
		n.near.do("ip neighbour replace "+farBus+" lladdr "+nobody+" dev bus nud permanent"),
		n.far.do("ip neighbour replace "+nearBus+" lladdr "+nobody+" dev bus nud permanent"),
	)
}

// mend undoes a cut.
func (n *network) mend() error {
	return errors.Join(
		n.near.do("ip neighbour delete "+farBus+" dev bus"),
		n.far.do("ip neighbour delete "+nearBus+" dev bus"),
	)
}

func (n *network) close() error {
	if n.holder == nil {
		return nil
	}
	return errors.Join(n.stdin.Close(), n.holder.Wait())
}
