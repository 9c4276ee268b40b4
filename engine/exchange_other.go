//go:build !linux

package engine

// flight exists on Linux only.
type flight struct{}

func (cn *conn) open() error { return nil }

func (cn *conn) exchange(head, body []byte) error { return cn.exchangeBlocking(head, body) }

// quiet cannot look here: a dead connection is found by the re-send.
func (cn *conn) quiet() bool { return true }
