// Package relay is the yardstick of the benchmarks: about the smallest HTTP/1.1
// relay that one would write by hand in Go. A goroutine per client reads a request,
// sends it as it is to the one engine over a pooled connection in one write, and
// copies the answer back as it comes. What it spends on a request is 1 F. It knows
// no routes, no deadlines, no limits and no broken clients: it is for measuring.
package relay
