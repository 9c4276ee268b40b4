package flags

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// cmpEmpty treats nil and empty slices as the same.
func cmpEmpty() cmp.Option { return cmpopts.EquateEmpty() }
