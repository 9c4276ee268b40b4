package service

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"smg/cmd/internal/flags"
)

func TestListenSaysWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	tests := []struct {
		name       string
		flag, host string
		port       int
		want       []string
	}{
		{"taken", "--router-prometheus-", "127.0.0.1", port, []string{"of 127.0.0.1 is in use", "--router-prometheus-port"}},
		{"not ours", "--", "192.0.2.1", 0, []string{"192.0.2.1 is no address of this machine", "--host 192.0.2.1"}},
		{"no host name", "--", "no host", 0, []string{"no host cannot be resolved", "--host no host"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Listen(tt.flag, tt.host, tt.port)
			if err == nil {
				l.Close()
				t.Fatal("it listens")
			}
			fault, ok := errors.AsType[*flags.Fault](err)
			if !ok || fault.Code != flags.ExitFailure || fault.Hint == "" {
				t.Fatalf("got %#v", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
	if runtime.GOOS != "linux" {
		return
	}
	if name, pid, ok := holder(port); !ok || pid != os.Getpid() || name == "" {
		t.Errorf("port %d is held by %q, pid %d, %v; want pid %d", port, name, pid, ok, os.Getpid())
	}
}
