package instant

import "bytes"

// finder looks for a true "stream" member in a body that comes in parts. It
// does not parse: the text inside a prompt would deceive it.
type finder struct {
	found bool
	tail  [32]byte // the end of what came before
	n     int
}

func (f *finder) write(p []byte) {
	if f.found {
		return
	}
	if f.n > 0 {
		seam := append(f.tail[:f.n:f.n], p[:min(len(p), len(f.tail))]...)
		f.found = streams(seam)
	}
	f.found = f.found || streams(p)
	if len(p) >= len(f.tail) {
		f.n = copy(f.tail[:], p[len(p)-len(f.tail):])
		return
	}
	keep := min(f.n, len(f.tail)-len(p))
	copy(f.tail[:], f.tail[f.n-keep:f.n])
	f.n = keep + copy(f.tail[keep:], p)
}

func streams(p []byte) bool {
	name := []byte(`"stream"`)
	for {
		i := bytes.Index(p, name)
		if i < 0 {
			return false
		}
		p = p[i+len(name):]
		rest := bytes.TrimLeft(p, " \t\r\n")
		if len(rest) > 0 && rest[0] == ':' && bytes.HasPrefix(bytes.TrimLeft(rest[1:], " \t\r\n"), []byte("true")) {
			return true
		}
	}
}
