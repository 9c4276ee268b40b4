package wire

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"smg/wire/wirepb"
	"smg/worker"
)

const recordsName = "keeper's records"

// MaxRecords is the most records of one message.
const MaxRecords = 1024

// Records is one message of keepers' records: those of some of the workers that a
// keeper keeps.
type Records []State

// State is a [worker.Record] between processes. Instants of a process's own clock
// mean nothing to another, so they travel as ages: the sender takes them when it
// sends ([StateOf]), which adds the time for which it held what it passes on; the
// receiver makes instants of them when it receives ([State.Record]). Nobody adds
// the time that the message was under way. Ages travel in whole microseconds.
type State struct {
	Worker worker.ID
	Epoch  uint64
	Term   uint64
	Keeper worker.ReplicaID
	Seq    uint64

	// Status and Breaker read as Pending and Closed when they are absent.
	Status     worker.Status
	Breaker    worker.Breaker
	BreakerAge time.Duration // in this breaker state; negative when unknown
	Overloaded bool
	Report     *Report // nil: none
	Process    worker.Process
}

// Report is a [worker.Report] between processes.
type Report struct {
	Age  time.Duration // since the poll was sent
	Load worker.Report // all but PolledAt
}

// StateOf is the record r as it is sent at now. An instant in the future, which a
// clock that was set back may leave, has age 0.
func StateOf(r worker.Record, now time.Time) *State {
	s := &State{
		Worker:     r.Worker,
		Epoch:      r.Epoch,
		Term:       r.Term,
		Keeper:     r.Keeper,
		Seq:        r.Seq,
		Status:     r.Status,
		Breaker:    r.Breaker,
		BreakerAge: -1,
		Overloaded: r.Overloaded,
		Process:    r.Process,
	}
	if !r.BreakerSince.IsZero() {
		s.BreakerAge = max(0, now.Sub(r.BreakerSince))
	}
	if r.Report != nil {
		s.Report = &Report{Age: max(0, now.Sub(r.Report.PolledAt)), Load: *r.Report}
		s.Report.Load.PolledAt = time.Time{}
	}
	return s
}

// RecordsOf are records as they are sent at now, in as many messages as it takes.
func RecordsOf(recs []worker.Record, now time.Time) []Records {
	var all []Records
	for part := range slices.Chunk(recs, MaxRecords) {
		records := make(Records, len(part))
		for i, rec := range part {
			records[i] = *StateOf(rec, now)
		}
		all = append(all, records)
	}
	return all
}

// Record is s as it is received at now. BreakerSince is zero when its age is
// unknown.
func (s *State) Record(now time.Time) worker.Record {
	r := worker.Record{
		Worker:     s.Worker,
		Epoch:      s.Epoch,
		Term:       s.Term,
		Keeper:     s.Keeper,
		Seq:        s.Seq,
		Status:     s.Status,
		Breaker:    s.Breaker,
		Overloaded: s.Overloaded,
		Process:    s.Process,
	}
	if s.BreakerAge >= 0 {
		r.BreakerSince = now.Add(-s.BreakerAge)
	}
	if s.Report != nil {
		load := s.Report.Load
		load.PolledAt = now.Add(-s.Report.Age)
		r.Report = &load
	}
	return r
}

// AppendRecords encodes r at the end of buf.
func AppendRecords(buf []byte, r *Records) ([]byte, error) {
	if err := checkLen("records", len(*r), MaxRecords); err != nil {
		return buf, unsendable(recordsName, err)
	}
	m := &wirepb.Records{Records: make([]*wirepb.State, 0, len(*r))}
	for i := range *r {
		s := &(*r)[i]
		if err := checkState(s); err != nil {
			return buf, unsendable(recordsName, err)
		}
		m.Records = append(m.Records, encodeState(s))
	}
	return marshal(buf, recordsName, m)
}

func encodeState(s *State) *wirepb.State {
	m := &wirepb.State{
		Worker:     s.Worker[:],
		Epoch:      s.Epoch,
		Term:       s.Term,
		Keeper:     uint64(s.Keeper),
		Seq:        s.Seq,
		Status:     toEnum[wirepb.Status](s.Status),
		Breaker:    toEnum[wirepb.Breaker](s.Breaker),
		Overloaded: s.Overloaded,

		Process:       s.Process.ID,
		BootstrapPort: uint32(s.Process.BootstrapPort),
	}
	if s.BreakerAge >= 0 {
		us := uint64(s.BreakerAge.Microseconds())
		m.BreakerAgeUs = &us
	}
	if s.Report != nil {
		m.Report = encodeReport(s.Report)
	}
	return m
}

// DecodeRecords reads keepers' records and keeps nothing of data.
func DecodeRecords(data []byte) (*Records, error) {
	var m wirepb.Records
	if err := unmarshal(data, recordsName, &m); err != nil {
		return nil, err
	}
	if err := checkLen("records", len(m.Records), MaxRecords); err != nil {
		return nil, malformed(recordsName, err)
	}
	records := make(Records, 0, len(m.Records))
	for _, one := range m.Records {
		s, err := decodeState(one)
		if err == nil {
			err = checkState(s)
		}
		if err != nil {
			return nil, malformed(recordsName, err)
		}
		records = append(records, *s)
	}
	return &records, nil
}

// checkState is what holds for every record, sent or received.
func checkState(s *State) error {
	switch {
	case isZero(s.Worker):
		return errors.New("it is about no worker")
	case s.Keeper == 0:
		return errors.New("it is from no keeper")
	case s.Status > worker.Draining:
		return fmt.Errorf("unknown %s", s.Status)
	case s.Breaker > worker.HalfOpen:
		return fmt.Errorf("unknown breaker state %d", uint8(s.Breaker))
	case s.Report != nil && s.Report.Age < 0:
		return fmt.Errorf("a report of age %s", s.Report.Age)
	case s.Report != nil && len(s.Report.Load.Ranks) > MaxList:
		return fmt.Errorf("a report of %d ranks", len(s.Report.Load.Ranks))
	case s.Report != nil && !s.Report.Load.Sound():
		return errors.New("a report with a number that no report has")
	}
	return nil
}

func decodeState(m *wirepb.State) (*State, error) {
	id, err := decodeID(m.Worker)
	if err != nil {
		return nil, err
	}
	s := &State{
		Worker:     id,
		Epoch:      m.Epoch,
		Term:       m.Term,
		Keeper:     worker.ReplicaID(m.Keeper),
		Seq:        m.Seq,
		BreakerAge: -1,
		Overloaded: m.Overloaded,
	}
	if m.BootstrapPort > math.MaxUint16 {
		return nil, fmt.Errorf("bootstrap port %d", m.BootstrapPort)
	}
	s.Process = worker.Process{ID: m.Process, BootstrapPort: uint16(m.BootstrapPort)}
	s.Status, _ = fromEnum(m.Status, worker.Draining)
	s.Breaker, _ = fromEnum(m.Breaker, worker.HalfOpen)
	if m.BreakerAgeUs != nil {
		if s.BreakerAge, err = decodeAge(*m.BreakerAgeUs); err != nil {
			return nil, err
		}
	}
	if m.Report != nil {
		if s.Report, err = decodeReport(m.Report); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func encodeReport(r *Report) *wirepb.Report {
	l := &r.Load
	m := &wirepb.Report{
		AgeUs:      uint64(r.Age.Microseconds()),
		GoodForUs:  uint64(l.GoodFor.Microseconds()),
		Waiting:    uint64(l.Waiting),
		Running:    uint64(l.Running),
		MaxRunning: uint64(l.MaxRunning),
		Throughput: l.Throughput,
		KvUsage:    l.KVUsage,
	}
	if l.Queued != worker.NotReported {
		queued := uint64(l.Queued)
		m.Queued = &queued
	}
	for _, u := range l.Ranks {
		m.Ranks = append(m.Ranks, &wirepb.Rank{Rank: uint32(u.Rank), UsedTokens: uint64(u.Used)})
	}
	return m
}

func decodeReport(m *wirepb.Report) (*Report, error) {
	age, err := decodeAge(m.AgeUs)
	if err != nil {
		return nil, err
	}
	good, err := decodeAge(m.GoodForUs)
	if err != nil {
		return nil, err
	}
	r := &Report{Age: age, Load: worker.Report{GoodFor: good, Queued: worker.NotReported, Throughput: m.Throughput, KVUsage: m.KvUsage}}
	l := &r.Load
	if m.Queued != nil {
		l.Queued = count(*m.Queued)
	}
	for _, u := range m.Ranks {
		l.Ranks = append(l.Ranks, worker.RankUse{Rank: int(u.Rank), Used: count(u.UsedTokens)})
	}
	l.Waiting, l.Running, l.MaxRunning = count(m.Waiting), count(m.Running), count(m.MaxRunning)
	return r, nil
}

// count is a number as it is reckoned with; no engine counts higher.
func count(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func decodeAge(us uint64) (time.Duration, error) {
	if us > uint64(math.MaxInt64/time.Microsecond) {
		return 0, fmt.Errorf("an age of %d µs", us)
	}
	return time.Duration(us) * time.Microsecond, nil
}
