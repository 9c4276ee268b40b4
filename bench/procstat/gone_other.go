//go:build !unix

package procstat

import "io/fs"

var errNoProcess = fs.ErrNotExist
