//go:build race

package policytest

// raceEnabled: the race detector allocates, so allocations are not counted.
const raceEnabled = true
