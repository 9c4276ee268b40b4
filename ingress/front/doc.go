// Package front is what lies between a client's socket and net/http: it refuses
// requests whose framing two readers could read differently (request smuggling),
// which net/http lets pass, and it tells when a client leaves, also where net/http
// is not looking. Its reads and writes spare the scheduler, and its deadlines the
// runtime's timers, what net/http asks of them for each request. It does not read bodies or know routes.
package front
