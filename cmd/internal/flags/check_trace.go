package flags

// check judges what the flags of table_trace.go say together.
func (t *Trace) check(c *checker) {
	if t.HealthPortSet && t.HealthPort == 0 {
		c.add("health-check-port", "0", "give a port from 1 to 65535", "a stable port is required")
	}
}
