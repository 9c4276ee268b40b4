package ingress

import (
	"net/http"
	"time"
)

// answer passes a request's answer on to the HTTP server, and keeps what is to be told
// of it afterwards. It belongs to the goroutine of the handler.
type answer struct {
	x  *exchange
	to http.ResponseWriter

	status int           // of the head, 0 as long as there is none
	code   string        // of the gateway's own error, "" for any other answer
	headed time.Duration // when the head went out, as [exchange.elapsed] counts
	bytes  int64         // of the body, as far as the server has taken them
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.to.Header() }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.begin(status)
	}
	a.to.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.begin(http.StatusOK)
	}
	n, err := a.to.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap lets [http.ResponseController] find the server's own writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.to }

func (a *answer) begin(status int) {
	a.status, a.headed = status, a.x.elapsed()
	defer a.x.headOut()
	if status < http.StatusBadRequest {
		return
	}
	// An engine's field of this name does not get here, see dropsToClient.
	if v := a.to.Header()[errorCodeHeader]; len(v) > 0 {
		a.code = v[0]
	}
}
