package engine

import "fmt"

// Refused is the own word of an engine that is not spoken to over HTTP: it does not
// serve a call, or not to its end. Status is what it would have answered over HTTP.
type Refused struct {
	Target  string // base URL of the engine
	Status  int
	Code    string // the engine's word for it, such as InvalidArgument
	Message string
}

// Error implements error.
func (r *Refused) Error() string {
	return fmt.Sprintf("engine %s: %s (%d): %s", r.Target, r.Code, r.Status, r.Message)
}
