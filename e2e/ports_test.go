package e2e

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// ports hands out ports below those that the system gives to others, so that one
// that was found free stays free. Runs at the same time begin in different places.
var ports = struct {
	sync.Mutex
	next int
}{next: 12000 + os.Getpid()%40*500}

// block is the first of n neighbouring ports that are free.
func block(t *testing.T, n int) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		first := ports.next
		ports.next += n
		if ports.next > 32000 {
			ports.next = 12000
			continue
		}
		free := true
		for p := first; p < first+n && free; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if free = err == nil; free {
				free = l.Close() == nil
			}
		}
		if free {
			return first
		}
	}
	t.Fatalf("there are no %d free ports", n)
	return 0
}

// port is a free port.
func port(t *testing.T) int {
	t.Helper()
	return block(t, 1)
}
