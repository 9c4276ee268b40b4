package zmtp

import "time"

// Config bounds connections.
type Config struct {
	// Connect is how long it may take to reach a peer and to agree with it.
	Connect time.Duration
	// Heartbeat is how long a peer may be silent before it is asked whether it is
	// there, and then before it is given up; also how long a write, or the rest of a
	// frame, may take.
	Heartbeat time.Duration
	// MaxMessage is the longest message, in bytes, and MaxFrames how many frames it
	// may have.
	MaxMessage int
	MaxFrames  int
}

// DefaultConfig suits streams of events.
func DefaultConfig() Config {
	return Config{Connect: 10 * time.Second, Heartbeat: 15 * time.Second, MaxMessage: 64 << 20, MaxFrames: 16}
}
