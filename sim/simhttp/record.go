package simhttp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"smg/sim/simctl"
)

// The recorder forgets its oldest entries beyond these.
const (
	maxRecords     = 20_000
	maxRecordBytes = 256 << 20
)

// recorder keeps the requests of an engine.
type recorder struct {
	clock func() time.Time

	mu      sync.Mutex
	seq     int
	entries []*entry
	bytes   int
}

// entry is a record in the making. The recorder's mutex guards it.
type entry struct {
	simctl.Record
	conn *conn
}

// begin notes the arrival of r. The entry counts only if keep is set; it may
// be used either way.
func (rc *recorder) begin(r *http.Request, keep bool) *entry {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.seq++
	e := &entry{conn: connOf(r.Context())}
	if !keep {
		return e
	}
	e.Record = simctl.Record{
		Seq: rc.seq, Method: r.Method, Path: r.RequestURI, Host: r.Host, Proto: r.Proto,
		Header: r.Header.Clone(), Arrived: rc.clock(),
	}
	if e.conn != nil {
		e.Record.Conn = e.conn.id
	}
	rc.entries = append(rc.entries, e)
	rc.trim()
	return e
}

func (rc *recorder) body(e *entry, body []byte) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if e.Seq == 0 {
		return
	}
	e.Body = body
	rc.bytes += len(body)
	rc.trim()
}

func (rc *recorder) trim() {
	for len(rc.entries) > maxRecords || rc.bytes > maxRecordBytes && len(rc.entries) > 1 {
		rc.bytes -= len(rc.entries[0].Body)
		rc.entries[0] = nil
		rc.entries = rc.entries[1:]
	}
}

// watch notes when ctx ends before stop is called: the caller has gone.
func (rc *recorder) watch(ctx context.Context, e *entry) (stop func() bool) {
	return context.AfterFunc(ctx, func() { rc.left(e) })
}

// left notes that the caller has gone.
func (rc *recorder) left(e *entry) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	e.CallerClosed = rc.clock()
}

func (rc *recorder) end(e *entry, status int) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	e.Status, e.Ended = status, rc.clock()
}

// list returns the records whose path, without its query, is path; all if path
// is empty.
func (rc *recorder) list(path string) []simctl.Record {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	out := []simctl.Record{}
	for _, e := range rc.entries {
		if path != "" && stripQuery(e.Path) != path {
			continue
		}
		r := e.Record
		if e.conn != nil {
			r.ConnClosed = e.conn.closedAt()
		}
		out = append(out, r)
	}
	return out
}

func stripQuery(target string) string {
	for i := range len(target) {
		if target[i] == '?' {
			return target[:i]
		}
	}
	return target
}

func (rc *recorder) clear() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.entries, rc.bytes = nil, 0
}
