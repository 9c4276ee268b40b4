package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof" //nolint:gosec // what it does to the default mux is of no use here: nobody serves that

	"smg/cmd/internal/flags"
)

// BindPprof takes the address of --pprof-addr, whose name carries prefix; "" is none, and
// gives nil.
func BindPprof(prefix, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil //nolint:nilnil // nothing is listened on, which is no fault
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &flags.Fault{
			What: fmt.Sprintf("cannot listen on %s: %v", addr, err), Where: "--" + prefix + "pprof-addr " + addr,
			Hint: "give a free address of this machine, such as 127.0.0.1:6060", Code: flags.ExitFailure,
		}
	}
	return l, nil
}

// Pprof serves profiles of the process on l until the stage ends.
func Pprof(l net.Listener, log *slog.Logger) Stage {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", noCommandLine)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return Stage{Name: "profiles", Run: func(ctx context.Context) error {
		log.Info("profiles can be fetched", slog.String("url", "http://"+l.Addr().String()+"/debug/pprof/"))
		return serveUntil(ctx, l, mux, "profiles", log)
	}}
}

// noCommandLine keeps the command line, which may hold keys, from those who look at
// profiles.
func noCommandLine(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "the command line is not shown", http.StatusForbidden)
}
