package policy

import "fmt"

// Config is which policy an operator chose, and with which settings. None of the
// policies built so far has a setting.
type Config struct {
	// Policy is one of [BuiltNames] (flag --policy).
	Policy string
}

// DefaultConfig holds the built-in choices. Policies that a worker's label asks for
// get their settings from here, whatever the flags say.
func DefaultConfig() Config {
	return Config{Policy: RoundRobin}
}

// Validate reports what is wrong with the flags, ready to be shown. The error wraps
// [ErrUnknown] or [ErrNotBuilt].
func (c Config) Validate() error {
	if err := check(c.Policy); err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	return nil
}
