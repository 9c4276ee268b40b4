// Package ingress is the HTTP API in front of the fleet. It carries a request from
// the client's bytes to the client's answer, in one direction:
//
//	read (request.go) → plan (plan.go) → select ([Selector]) →
//	dispatch ([Dispatcher]) → relay (relay.go) → release
//
// It owns what a client sees: routes, headers, limits, errors (errors.go alone
// turns errors into HTTP), and the one context under which everything of a request
// runs (exchange.go), which the watcher (watch.go) ends when the client is gone or
// the time is up. It does not know how a worker is chosen, how services talk to
// each other or who started the engines.
package ingress
