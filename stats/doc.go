// Package stats reduces what was measured to what is reported: quantiles of one
// run, medians and spreads over rounds, ratios and differences paired by round. It
// is pure and does not know what the numbers stand for.
package stats
