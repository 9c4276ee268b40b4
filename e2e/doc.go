// Package e2e tests the programs from outside: real binaries, real connections,
// simulated engines. It also holds the packages to the table of who may import
// whom. It knows the product's surface, never its internals.
package e2e
