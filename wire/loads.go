package wire

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"smg/wire/wirepb"
	"smg/worker"
)

const (
	loadsAskName = "question for loads"
	loadsName    = "loads"
)

// LoadsAsk asks the replicas of a leg what the engines that they keep report. Each one
// answers with [Loads], to [Cluster.Loads] of the asker.
type LoadsAsk struct {
	Asker    uint64 // the incarnation of an ingress
	Question uint64 // its number, which the answers have
}

// Loads is a part of what a replica answers to a [LoadsAsk].
type Loads struct {
	Question uint64
	Replica  worker.ReplicaID
	Last     bool // nothing follows
	Workers  []worker.Loads
}

// LoadsAsk is where a leg's replicas are asked for loads: smg.v1.<cluster>.loads.<leg>.
func (c Cluster) LoadsAsk(leg worker.Leg) Topic[LoadsAsk] {
	return Topic[LoadsAsk]{
		Kind:    "loads",
		Subject: c.subject("loads", leg),
		Append:  AppendLoadsAsk,
		Decode:  DecodeLoadsAsk,
	}
}

// Loads is the inbox of one who asks, for the answers:
// smg.v1.<cluster>.loads.<leg>.<asker>, in decimal.
func (c Cluster) Loads(leg worker.Leg, asker uint64) Topic[Loads] {
	return Topic[Loads]{
		Kind:    "loads",
		Subject: c.subject("loads", leg) + "." + strconv.FormatUint(asker, 10),
		Append:  AppendLoads,
		Decode:  DecodeLoads,
	}
}

// loadsPart is after how many ranks a part of an answer ends: with the most that one
// engine reports it is still below [MaxMessage].
const loadsPart = 2048

// LoadsOf is a replica's answer in parts, of which there is always one.
func LoadsOf(question uint64, replica worker.ReplicaID, workers []worker.Loads) []Loads {
	parts := []Loads{{Question: question, Replica: replica}}
	ranks := 0
	for i := range workers {
		last := &parts[len(parts)-1]
		if ranks >= loadsPart {
			parts = append(parts, Loads{Question: question, Replica: replica})
			last, ranks = &parts[len(parts)-1], 0
		}
		last.Workers = append(last.Workers, workers[i])
		ranks += len(workers[i].Ranks)
	}
	parts[len(parts)-1].Last = true
	return parts
}

// AppendLoadsAsk encodes a at the end of buf.
func AppendLoadsAsk(buf []byte, a *LoadsAsk) ([]byte, error) {
	if err := checkLoadsAsk(a); err != nil {
		return buf, unsendable(loadsAskName, err)
	}
	return marshal(buf, loadsAskName, &wirepb.LoadsAsk{Asker: a.Asker, Question: a.Question})
}

// DecodeLoadsAsk reads a question for loads and keeps nothing of data.
func DecodeLoadsAsk(data []byte) (*LoadsAsk, error) {
	var m wirepb.LoadsAsk
	if err := unmarshal(data, loadsAskName, &m); err != nil {
		return nil, err
	}
	a := &LoadsAsk{Asker: m.Asker, Question: m.Question}
	if err := checkLoadsAsk(a); err != nil {
		return nil, malformed(loadsAskName, err)
	}
	return a, nil
}

func checkLoadsAsk(a *LoadsAsk) error {
	if a.Asker == 0 {
		return errors.New("it is from nobody")
	}
	return nil
}

// AppendLoads encodes l at the end of buf.
func AppendLoads(buf []byte, l *Loads) ([]byte, error) {
	if err := checkLoads(l); err != nil {
		return buf, unsendable(loadsName, err)
	}
	m := &wirepb.Loads{Question: l.Question, Replica: uint64(l.Replica), Last: l.Last}
	for i := range l.Workers {
		w := &wirepb.WorkerLoads{Worker: l.Workers[i].Worker[:]}
		for k := range l.Workers[i].Ranks {
			w.Ranks = append(w.Ranks, rankToWire(&l.Workers[i].Ranks[k]))
		}
		m.Workers = append(m.Workers, w)
	}
	return marshal(buf, loadsName, m)
}

func rankToWire(r *worker.RankLoad) *wirepb.RankLoad {
	m := &wirepb.RankLoad{Rank: uint32(r.Rank), Mode: r.Mode}
	for i, n := range r.Numbers() {
		if *n != nil {
			m.Present |= 1 << i
			m.Numbers = append(m.Numbers, **n)
		}
	}
	return m
}

// DecodeLoads reads loads and keeps nothing of data.
func DecodeLoads(data []byte) (*Loads, error) {
	var m wirepb.Loads
	if err := unmarshal(data, loadsName, &m); err != nil {
		return nil, err
	}
	l := &Loads{Question: m.Question, Replica: worker.ReplicaID(m.Replica), Last: m.Last}
	for _, w := range m.Workers {
		id, err := decodeID(w.Worker)
		if err != nil {
			return nil, malformed(loadsName, err)
		}
		one := worker.Loads{Worker: id}
		for _, r := range w.Ranks {
			rank, err := rankFromWire(r)
			if err != nil {
				return nil, malformed(loadsName, err)
			}
			one.Ranks = append(one.Ranks, rank)
		}
		l.Workers = append(l.Workers, one)
	}
	if err := checkLoads(l); err != nil {
		return nil, malformed(loadsName, err)
	}
	return l, nil
}

func rankFromWire(m *wirepb.RankLoad) (worker.RankLoad, error) {
	if m.Rank > math.MaxInt32 {
		return worker.RankLoad{}, fmt.Errorf("rank %d", m.Rank)
	}
	if have := bits.OnesCount64(m.Present); have != len(m.Numbers) {
		return worker.RankLoad{}, fmt.Errorf("%d numbers where there are to be %d", len(m.Numbers), have)
	}
	r, next := worker.RankLoad{Rank: int(m.Rank), Mode: m.Mode}, 0
	for i, n := range r.Numbers() {
		if m.Present&(1<<i) != 0 {
			*n = &m.Numbers[next]
			next++
		}
	}
	return r, nil
}

// checkLoads is what holds for all loads, sent or received.
func checkLoads(l *Loads) error {
	if l.Replica == 0 {
		return errors.New("they are from nobody")
	}
	for i := range l.Workers {
		w := &l.Workers[i]
		if isZero(w.Worker) {
			return errors.New("loads of no worker")
		}
		if len(w.Ranks) == 0 {
			return errors.New("loads of no rank")
		}
		if err := checkLen("ranks", len(w.Ranks), MaxList); err != nil {
			return err
		}
		for k := range w.Ranks {
			if err := checkRank(&w.Ranks[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkRank(r *worker.RankLoad) error {
	if r.Rank < 0 || r.Rank > math.MaxInt32 {
		return fmt.Errorf("rank %d", r.Rank)
	}
	if err := checkString("the mode of a rank", r.Mode, MaxName); err != nil {
		return err
	}
	for _, n := range r.Numbers() {
		if *n == nil {
			continue
		}
		if err := checkFinite("a number of a rank", **n); err != nil {
			return err
		}
		if **n < 0 {
			return fmt.Errorf("a number of a rank is %v", **n)
		}
	}
	return nil
}
