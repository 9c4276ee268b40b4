package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsWithin bounds the start of the NATS server.
const natsWithin = 10 * time.Second

// serveNATS is a NATS server as an operator would run one, until ctx ends.
func serveNATS(ctx context.Context, listen string) (err error) {
	addr, err := netip.ParseAddrPort(listen)
	if err != nil {
		return fmt.Errorf("NATS server: %w", err)
	}
	dir, err := os.MkdirTemp("", "smg-bench-nats-")
	if err != nil {
		return fmt.Errorf("NATS server: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := server.NewServer(&server.Options{
		Host: addr.Addr().String(), Port: int(addr.Port()),
		JetStream: true, StoreDir: dir, DisableJetStreamBanner: true, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return fmt.Errorf("NATS server: %w", err)
	}
	s.Start()
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	if !s.ReadyForConnections(natsWithin) {
		return fmt.Errorf("NATS server: not ready within %s", natsWithin)
	}
	<-ctx.Done()
	return nil
}
