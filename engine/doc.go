// Package engine talks to inference engines. [Client] is the HTTP/1.1 client
// of the request path: a connection pool per [Target], one write for head and
// body, strict framing, bounded memory, and an end of the caller's context
// that closes the connection at once, whatever it is doing. It exists because
// the client side of net/http costs a gateway more than everything else
// together. [Prober] asks an engine who it is and whether it is well, with
// the standard client, for nothing there is hot. The package carries bytes:
// it does not know legs, plans, policies, retries beyond its one free
// re-send, or the message bus.
package engine
