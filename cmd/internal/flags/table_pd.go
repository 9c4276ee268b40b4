package flags

// Sharing is what is decided about requests that several workers share, beyond which
// workers those are.
type Sharing struct{}

// sharingTable defines the flags of [Sharing].
func sharingTable() []Def { return nil }

// check judges the values of those flags.
func (Sharing) check(*checker) {}
