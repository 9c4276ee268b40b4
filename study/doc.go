// Package study runs a site in virtual time: requests arrive, a policy picks among
// simulated engines, and what became of every request is told. The policy runs over
// a real pool, fold, lease stream and keeper records of package worker, fed with the
// delays that the product has; only the bus, the clock and the engines are not real.
//
// A run is one goroutine and a function of its configuration, so that equal runs
// give equal results. Runs share nothing and can go side by side.
//
// It does not know where requests come from, nor which policies there are.
package study
