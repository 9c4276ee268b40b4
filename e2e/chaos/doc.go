// Command chaos breaks a site under load, one part after another, and checks that
// nothing is lost by it. The site is what a fleet is made of: two ingresses, two
// selectors for each of two legs, engines in roles, and a cluster of three NATS
// servers, all of them processes on two hosts (network namespaces where the machine
// has them). Order, victims and moments come from a seed.
//
// After every fault it stops the short requests, keeps the long streams, and measures
// how long it takes until each selector counts for each engine what that engine has
// in flight, and all selectors hold the same of every worker. docs/reliability.md has
// the figures of a run and says how to read them.
//
// With -site legs it breaks engines that share requests, in front of one gateway, and
// looks at every single answer.
package main
