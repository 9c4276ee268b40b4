package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// routePing finds a server that cannot be heard within seconds; without it the servers
// would notice after a minute, or when TCP sends again what was lost, which takes as
// long as the cut did. docs/operations.md advises it.
const routePing = 2 * time.Second

// serveNATS is a server of a NATS cluster, until ctx ends.
func serveNATS(ctx context.Context, args []string) error {
	opts := &server.Options{JetStream: true, NoSigs: true, Cluster: server.ClusterOpts{Name: "chaos", PingInterval: routePing}}
	fs := flag.NewFlagSet(natsVerb, flag.ContinueOnError)
	fs.StringVar(&opts.ServerName, "name", "", "")
	fs.StringVar(&opts.Host, "host", "", "")
	fs.IntVar(&opts.Port, "port", 0, "")
	fs.IntVar(&opts.Cluster.Port, "cluster-port", 0, "")
	fs.StringVar(&opts.StoreDir, "store", "", "")
	routes := fs.String("routes", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	opts.Cluster.Host = opts.Host
	for route := range strings.SplitSeq(*routes, ",") {
		u, err := url.Parse(route)
		if err != nil {
			return fmt.Errorf("-routes: %w", err)
		}
		opts.Routes = append(opts.Routes, u)
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	ns.ConfigureLogger()
	ns.Start()
	if !ns.Running() {
		return errors.New("the NATS server did not start")
	}
	<-ctx.Done()
	ns.Shutdown()
	ns.WaitForShutdown()
	return nil
}
