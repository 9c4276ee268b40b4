package wire

import (
	"errors"
	"fmt"

	"smg/worker"
)

// Version is the major version of the protocol. It is part of every subject and
// bucket name: services of different major versions do not hear each other.
const Version = 1

// MaxCluster is the longest cluster name, in bytes.
const MaxCluster = 64

// Cluster names one fleet. Fleets of different clusters can share one NATS. The
// zero Cluster is not valid: use [ParseCluster].
type Cluster struct{ name string }

// ParseCluster checks a cluster name: 1 to [MaxCluster] letters, digits, '-' or
// '_', so that it can be a part of subjects and of bucket names.
func ParseCluster(name string) (Cluster, error) {
	if name == "" {
		return Cluster{}, errors.New("cluster name is empty")
	}
	if len(name) > MaxCluster {
		return Cluster{}, fmt.Errorf("cluster name %.*q… is longer than %d bytes", MaxCluster, name, MaxCluster)
	}
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
		default:
			return Cluster{}, fmt.Errorf("cluster name %q has a %q: only letters, digits, '-' and '_' can be in it", name, r)
		}
	}
	return Cluster{name}, nil
}

// String is the cluster's name.
func (c Cluster) String() string { return c.name }

func (c Cluster) subject(kind string, leg worker.Leg) string {
	return fmt.Sprintf("smg.v%d.%s.%s.%s", Version, c.name, kind, leg)
}

func (c Cluster) bucket(kind string) string {
	return fmt.Sprintf("smg_v%d_%s_%s", Version, c.name, kind)
}

// Topic is a stream of messages of one type: where they go, how they are written
// and read. Its functions are safe for concurrent use.
type Topic[T any] struct {
	// Kind is what the messages are about, a word fit for a metric's label.
	Kind string
	// Subject carries the messages and nothing else.
	Subject string
	// Append encodes v at the end of buf. It returns buf as it was, and an error,
	// for a value that a receiver would have to turn down.
	Append func(buf []byte, v *T) ([]byte, error)
	// Decode reads one message and keeps nothing of data. Its errors wrap
	// [ErrMalformed].
	Decode func(data []byte) (*T, error)
}

// Table is a set of values of one type under keys, kept in a KV bucket. Its
// functions are safe for concurrent use.
type Table[K comparable, V any] struct {
	// Kind is what the values are, a word fit for a metric's label.
	Kind string
	// Bucket is the name of the KV bucket.
	Bucket string
	// Keys is the pattern of the keys of this table, as NATS has it; "" is all of the
	// bucket.
	Keys string
	// Key is the key that a value is kept under.
	Key func(v *V) K
	// FormatKey is a key as it stands in the bucket, ParseKey its inverse.
	FormatKey func(k K) string
	ParseKey  func(s string) (K, error)
	// Append encodes v at the end of buf, as in [Topic].
	Append func(buf []byte, v *V) ([]byte, error)
	// Decode reads the value under k. A value that belongs under another key is
	// malformed.
	Decode func(k K, data []byte) (*V, error)
}

// Leases is the stream of lease batches of a leg: smg.v1.<cluster>.leases.<leg>.
// Ingresses write it, every selector replica and every ingress reads it.
func (c Cluster) Leases(leg worker.Leg) Topic[worker.Batch] {
	return Topic[worker.Batch]{
		Kind:    "leases",
		Subject: c.subject("leases", leg),
		Append:  AppendBatch,
		Decode: func(data []byte) (*worker.Batch, error) {
			b, err := DecodeBatch(data)
			if err == nil && b.Leg != leg {
				return nil, malformed(batchName, fmt.Errorf("it is about leg %s", b.Leg))
			}
			return b, err
		},
	}
}

// State is the stream of keepers' records of a leg: smg.v1.<cluster>.state.<leg>.
func (c Cluster) State(leg worker.Leg) Topic[Records] {
	return Topic[Records]{
		Kind:    "state",
		Subject: c.subject("state", leg),
		Append:  AppendRecords,
		Decode:  DecodeRecords,
	}
}

// Beat is the stream of signs of life of a leg's selector replicas:
// smg.v1.<cluster>.beat.<leg>.
func (c Cluster) Beat(leg worker.Leg) Topic[Beat] {
	return Topic[Beat]{
		Kind:    "beat",
		Subject: c.subject("beat", leg),
		Append:  AppendBeat,
		Decode: func(data []byte) (*Beat, error) {
			b, err := DecodeBeat(data)
			if err == nil && b.Leg != leg {
				return nil, malformed(beatName, fmt.Errorf("it is about leg %s", b.Leg))
			}
			return b, err
		},
	}
}

// Workers is who exists: the bucket smg_v1_<cluster>_workers, written by whoever
// registers a worker. Its keys are worker ids in the usual UUID form.
func (c Cluster) Workers() Table[worker.ID, worker.Spec] {
	return Table[worker.ID, worker.Spec]{
		Kind:      "workers",
		Bucket:    c.bucket("workers"),
		Key:       func(s *worker.Spec) worker.ID { return s.ID },
		FormatKey: worker.ID.String,
		ParseKey: func(s string) (worker.ID, error) {
			id, err := worker.ParseID(s)
			if err == nil && id.String() != s {
				err = fmt.Errorf("worker id %q is not in its usual form", s)
			}
			if err != nil {
				return worker.ID{}, malformed("key of a worker", err)
			}
			return id, nil
		},
		Append: AppendSpec,
		Decode: func(id worker.ID, data []byte) (*worker.Spec, error) {
			s, err := DecodeSpec(data)
			if err == nil && s.ID != id {
				return nil, malformed(specName, fmt.Errorf("it is %s, its key is %s", s.ID, id))
			}
			return s, err
		},
	}
}
