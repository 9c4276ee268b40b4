package flags

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
)

// check judges what the flags of table_trace.go say together.
func (t *Trace) check(c *checker) {
	c.checkFolder("log-dir", t.LogDir)
	if t.HealthPortSet && t.HealthPort == 0 {
		c.add("health-check-port", "0", "give a port from 1 to 65535", "a stable port is required")
	}
	for i, b := range t.DurationBuckets {
		if !(b > 0) || math.IsInf(b, 0) || i > 0 && b <= t.DurationBuckets[i-1] {
			c.add("prometheus-duration-buckets", strings.Trim(fmt.Sprint(t.DurationBuckets), "[]"), "write seconds above 0 in ascending order, such as 0.1 0.5 1 5",
				"the bounds of buckets must ascend from above 0")
			break
		}
	}
	if !t.Enabled {
		return
	}
	host, port, err := net.SplitHostPort(t.OTLPEndpoint)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		c.add("otlp-traces-endpoint", t.OTLPEndpoint, "write HOST:PORT, such as localhost:4317", "not a host and its port from 1 to 65535")
	}
}
