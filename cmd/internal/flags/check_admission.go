package flags

import "fmt"

// check judges what the flags of table_admission.go say together.
func (a Admission) check(c *checker) {
	if a.MaxConcurrent < 1 && a.MaxConcurrent != -1 {
		c.add("max-concurrent-requests", fmt.Sprint(a.MaxConcurrent), "give 1 or more, or -1 for any number", "must be at least 1")
	}
	if a.QueueTimeout <= 0 && a.QueueSize > 0 {
		c.add("queue-timeout-secs", "0", "give 1 or more, or --"+c.prefix+"queue-size 0 for no queue", "must be more than 0")
	}
	if a.RatePerSecond < 0 {
		c.add("rate-limit-tokens-per-second", fmt.Sprint(a.RatePerSecond), "give 0 or more, 0 for no such limit", "must not be negative")
	}
	if a.RatePerSecond > 0 && a.MaxConcurrent < 0 {
		c.add("rate-limit-tokens-per-second", fmt.Sprint(a.RatePerSecond), "give --"+c.prefix+"max-concurrent-requests as well: it is how many may come at once",
			"limits nothing without --%smax-concurrent-requests", c.prefix)
	}
}
