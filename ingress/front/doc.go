// Package front is what lies between a client's socket and net/http: it refuses
// requests whose framing two readers could read differently (request smuggling),
// which net/http lets pass, and it can tell that a client has left when net/http
// is not looking. It does not read bodies or know routes.
package front
