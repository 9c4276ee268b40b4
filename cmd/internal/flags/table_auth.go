package flags

// Auth is who may use the API and the engines, and by which certificates both are
// known.
type Auth struct{}

// authTable defines the flags of [Auth].
func authTable() []Def { return nil }
