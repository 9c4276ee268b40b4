package flags

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// check judges what the flags of table_requests.go say together. largest is the size in
// bytes of the largest body.
func (r *Requests) check(c *checker, largest int64) {
	if r.MaxBufferedSet && r.MaxBuffered > largest && largest > 0 {
		size := strconv.FormatInt(r.MaxBuffered, 10)
		c.add("max-buffered-request-bytes", fmt.Sprintf("%s and --%smax-payload-size %d", size, c.prefix, largest), "lower it, or raise --"+c.prefix+"max-payload-size",
			"no body is as large")
	}
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
