package simtest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"testing"
)

// Proxy stands before the engine at target until the test ends, and rewrites
// request bodies on their way. It returns its own URL. Answers pass unchanged,
// streams as they come.
func Proxy(t testing.TB, target string, rewrite func(body []byte) []byte) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			body, err := io.ReadAll(r.In.Body)
			if err != nil || len(body) == 0 {
				return
			}
			body = rewrite(body)
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
			r.Out.ContentLength = int64(len(body))
			r.Out.Header.Set("Content-Length", strconv.Itoa(len(body)))
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		transport.CloseIdleConnections()
	})
	return srv.URL
}

// Members returns a rewrite that sets members of a JSON object, such as
// "bootstrap_port" and "bootstrap_room". Numbers of the rest keep all digits.
func Members(members map[string]any) func(body []byte) []byte {
	return func(body []byte) []byte {
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil || object == nil {
			return body
		}
		all := make(map[string]any, len(object)+len(members))
		for k, v := range object {
			all[k] = v
		}
		maps.Copy(all, members)
		raw, err := json.Marshal(all)
		if err != nil {
			return body
		}
		return raw
	}
}
