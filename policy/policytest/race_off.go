//go:build !race

package policytest

const raceEnabled = false
