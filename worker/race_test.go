//go:build race

package worker

// raceEnabled: the race detector makes the property test ten times as long.
const raceEnabled = true
