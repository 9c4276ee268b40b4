package flags

import (
	"net/url"
	"strings"
)

// check judges what the flags of table_requests.go say together.
func (r *Requests) check(c *checker) {
	for _, o := range r.CORSOrigins {
		if o != "*" && !isOrigin(o) {
			c.add("cors-allowed-origins", o, "write it as browsers do: https://chat.example.org or http://localhost:3000", "not the origin of a web page")
		}
	}
}

// isOrigin says whether browsers name a page's origin so: scheme and host, and a port
// where it is not the scheme's own.
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.Host != "" && s == u.Scheme+"://"+u.Host && s == strings.ToLower(s)
}
