package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/http/pprof" //nolint:gosec // what it does to the default mux is of no use here: nobody serves that
	"net/url"
	"os"
	"strings"

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

// Profiled is a child process that shows its profiles to its parent.
type Profiled struct {
	Name string
	Page string // URL of its page
}

// path is where the parent shows them.
func (p Profiled) path() string { return "/" + strings.ReplaceAll(p.Name, " ", "-") }

// profilesPath is where a process shows its own.
const profilesPath = "/debug/pprof/"

// Pprof serves profiles of the process on l until the stage ends, and those of its
// children, each below its name.
func Pprof(l net.Listener, log *slog.Logger, children ...Profiled) Stage {
	mux := http.NewServeMux()
	handleProfiles(mux)
	for _, c := range children {
		mux.Handle("GET "+c.path()+profilesPath, c.proxy(log))
	}
	return Stage{Name: "profiles", Run: func(ctx context.Context) error {
		at := "http://" + l.Addr().String()
		log.Info("profiles can be fetched", slog.String("url", at+profilesPath))
		for _, c := range children {
			log.Info("profiles of a service can be fetched", slog.String("service", c.Name), slog.String("url", at+c.path()+profilesPath))
		}
		return serveUntil(ctx, l, mux, "profiles", log)
	}}
}

// handleProfiles shows the profiles of this process.
func handleProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET "+profilesPath, pprof.Index)
	mux.HandleFunc("GET "+profilesPath+"cmdline", noCommandLine)
	mux.HandleFunc("GET "+profilesPath+"profile", pprof.Profile)
	mux.HandleFunc("GET "+profilesPath+"symbol", pprof.Symbol)
	mux.HandleFunc("GET "+profilesPath+"trace", pprof.Trace)
}

// proxy asks the child.
func (p Profiled) proxy(log *slog.Logger) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if page, err := url.Parse(p.Page); err == nil { // its host is the listener's own word
				r.Out.URL.Scheme, r.Out.URL.Host = page.Scheme, page.Host
			}
			r.Out.URL.Path, r.Out.Host = strings.TrimPrefix(r.In.URL.Path, p.path()), ""
		},
		Transport: &http.Transport{DisableKeepAlives: true},
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// EnvProfiles has a child show its profiles on its page, if it is set.
const EnvProfiles = "SMG_PROFILES"

// ShowsProfiles says whether a parent wants them.
func ShowsProfiles() bool { return os.Getenv(EnvProfiles) != "" }

// noCommandLine keeps the command line, which may hold keys, from those who look at
// profiles.
func noCommandLine(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "the command line is not shown", http.StatusForbidden)
}
