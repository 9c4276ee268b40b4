// Package bench is the root of the measuring harness. It holds no code of its own:
// [smg/bench/load] sends requests and times answers, [smg/bench/procstat] reads
// what processes used, [smg/bench/subject] starts and stops what is measured,
// [smg/stats] reduces rounds to medians, spreads and paired ratios,
// [smg/bench/relay] is the yardstick (1 F), and each command beneath (smoke, site, fleet)
// is a set of scenarios. Everything measured there runs in a process of its own, apart
// from the process that drives it. The command study is the exception: it compares
// policies in virtual time, by [smg/study]; the command site lets a slice of the same
// trace arrive at real processes. docs/performance.md says how to read the figures.
package bench
