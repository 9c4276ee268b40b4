package ingress

import (
	"errors"
	"net/http"
	"slices"
)

// CORSConfig is which web pages may use the API.
type CORSConfig struct {
	// Origins are those whose pages may, none for any.
	Origins []string
}

// DefaultCORS is that of a gateway that was given no flags.
func DefaultCORS() CORSConfig { return CORSConfig{} }

// Validate reports every value out of range, each by its flag.
func (c CORSConfig) Validate() error {
	if slices.Contains(c.Origins, "") {
		return errors.New("--cors-allowed-origins must not have an empty origin")
	}
	return nil
}

// any says whether all pages may.
func (c CORSConfig) any() bool { return len(c.Origins) == 0 || slices.Contains(c.Origins, "*") }

const (
	corsPrefix = "Access-Control-"
	// preflightAge is for how many seconds browsers may keep the answer to a preflight.
	preflightAge = "3600"
)

// cors tells browsers which pages may read the answer. It says whether that was all
// that was asked.
func (x *exchange) cors(r *http.Request) (answered bool) {
	origin := r.Header["Origin"]
	if len(origin) == 0 {
		return false // no page asks
	}
	c, h := x.srv.cfg.CORS, x.w.Header()
	preflight := r.Method == http.MethodOptions && r.Header.Get(corsPrefix+"Request-Method") != ""
	switch {
	case c.any():
		h.Set(corsPrefix+"Allow-Origin", "*")
		if !preflight {
			h.Set(corsPrefix+"Expose-Headers", "*")
			return false
		}
		h.Set(corsPrefix+"Allow-Methods", "*")
		// A * would not stand for Authorization.
		if asked := r.Header.Values(corsPrefix + "Request-Headers"); len(asked) > 0 {
			h[corsPrefix+"Allow-Headers"] = asked
		} else {
			h.Set(corsPrefix+"Allow-Headers", "*")
		}
	default:
		h.Add("Vary", "Origin") // of no other page either
		if allowed := len(origin) == 1 && slices.Contains(c.Origins, origin[0]); allowed {
			h.Set(corsPrefix+"Allow-Origin", origin[0])
			if !preflight {
				h.Set(corsPrefix+"Expose-Headers", "x-request-id")
				return false
			}
			h.Set(corsPrefix+"Allow-Methods", "GET, POST, PATCH, DELETE, OPTIONS")
			h.Set(corsPrefix+"Allow-Headers", "content-type, authorization")
		}
		if !preflight {
			return false
		}
	}
	h.Set(corsPrefix+"Max-Age", preflightAge)
	forsake(x.w, r)
	x.watch.begin(taking)
	x.w.WriteHeader(http.StatusNoContent)
	_ = x.finish() // a browser that has left needs no error
	return true
}
