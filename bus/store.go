package bus

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// embeddedName begins the names of servers that are part of a program of ours and keep
// nothing on disk (natsd.NamePrefix).
const embeddedName = "smg-embedded-"

// mostReplicas is on how many servers a bucket is kept if nobody says.
const mostReplicas = 3

// storage is where the server that we are connected to is to keep buckets: on disk,
// unless it is embedded, in this process or in another, and keeps nothing.
func (c *Conn) storage() jetstream.StorageType {
	if strings.HasPrefix(c.nc.ConnectedServerName(), embeddedName) {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

// replicas are the numbers of replicas to try for a new bucket, in this order. The
// size of a cluster is known to nobody but its servers.
func (c *Conn) replicas() []int {
	switch {
	case c.cfg.Replicas > 0:
		return []int{c.cfg.Replicas}
	case c.nc.ConnectedClusterName() == "":
		return []int{1}
	default:
		n := make([]int, 0, mostReplicas)
		for r := mostReplicas; r > 0; r-- {
			n = append(n, r)
		}
		return n
	}
}

// What JetStream says when it has not as many servers as there should be replicas.
const (
	noSuitablePeers      jetstream.ErrorCode = 10005
	replicasNotSupported jetstream.ErrorCode = 10074 // the server is alone
)

func isTooFewServers(err error) bool {
	e, ok := errors.AsType[jetstream.JetStreamError](err)
	if !ok || e.APIError() == nil {
		return false
	}
	code := e.APIError().ErrorCode
	return code == noSuitablePeers || code == replicasNotSupported
}
