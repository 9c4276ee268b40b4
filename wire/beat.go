package wire

import (
	"errors"
	"fmt"
	"strings"

	"smg/wire/wirepb"
	"smg/worker"
)

const beatName = "beat"

// Beat is the sign of life of a selector replica. Ingresses and replicas, itself
// among them, rank it by its beats.
type Beat struct {
	Replica worker.ReplicaID
	Leg     worker.Leg
	// Ready: it answers selects. Draining: it is about to leave and does not.
	Ready    bool
	Draining bool

	Build    string   // version of the program
	Versions []uint32 // major wire versions that it understands
	Policies []PolicyUse
	Models   []string // ids of the models that it has workers of
}

// PolicyUse is a policy that a replica uses, and what of a request it must be sent.
type PolicyUse struct {
	Name  string
	Reads Reads
}

// Reads is the set of what a policy reads of a request; 0 is nothing.
type Reads uint16

// What a policy can read.
const (
	ReadsKey             Reads = 1 << iota // the routing key
	ReadsSize                              // the prompt's size
	ReadsTokens                            // token ids
	ReadsText                              // the prompt's text
	ReadsImplicitKey                       // headers that serve as a key where there is none
	ReadsPinnedKey                         // the key of policy manual
	ReadsConversationKey                   // the keys of sticky sessions
	NeedsText                              // the text, or tokens in its place: nothing else will do

	readsAll = NeedsText<<1 - 1
)

var readsNames = [...]string{"key", "size", "tokens", "text", "implicit key", "pinned key", "conversation key", "needs text"}

// String lists the set, "nothing" when it is empty.
func (r Reads) String() string {
	if r == 0 {
		return "nothing"
	}
	var names []string
	for i, n := range readsNames {
		if r&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if rest := r &^ readsAll; rest != 0 {
		names = append(names, fmt.Sprintf("reads(%d)", uint16(rest)))
	}
	return strings.Join(names, ",")
}

// AppendBeat encodes b at the end of buf.
func AppendBeat(buf []byte, b *Beat) ([]byte, error) {
	if err := checkBeat(b); err != nil {
		return buf, unsendable(beatName, err)
	}
	m := &wirepb.Beat{
		Replica:  uint64(b.Replica),
		Leg:      toEnum[wirepb.Leg](b.Leg),
		Ready:    b.Ready,
		Draining: b.Draining,
		Build:    b.Build,
		Versions: b.Versions,
		Models:   b.Models,
	}
	for _, p := range b.Policies {
		use := &wirepb.Policy{Name: p.Name}
		for i := range readsNames {
			if p.Reads&(1<<i) != 0 {
				use.Reads = append(use.Reads, wirepb.Reads(i+1))
			}
		}
		m.Policies = append(m.Policies, use)
	}
	return marshal(buf, beatName, m)
}

// DecodeBeat reads a replica's beat and keeps nothing of data. What a policy reads
// beyond what this program knows is left out.
func DecodeBeat(data []byte) (*Beat, error) {
	var m wirepb.Beat
	if err := unmarshal(data, beatName, &m); err != nil {
		return nil, err
	}
	leg, known := fromEnum(m.Leg, worker.Decode)
	if !known {
		return nil, malformed(beatName, fmt.Errorf("unknown leg %d", m.Leg))
	}
	b := &Beat{
		Replica:  worker.ReplicaID(m.Replica),
		Leg:      leg,
		Ready:    m.Ready,
		Draining: m.Draining,
		Build:    m.Build,
		Versions: m.Versions,
		Models:   m.Models,
	}
	for _, use := range m.Policies {
		p := PolicyUse{Name: use.Name}
		for _, r := range use.Reads {
			if r >= 1 && int(r) <= len(readsNames) {
				p.Reads |= 1 << (r - 1)
			}
		}
		b.Policies = append(b.Policies, p)
	}
	if err := checkBeat(b); err != nil {
		return nil, malformed(beatName, err)
	}
	return b, nil
}

// checkBeat is what holds for every beat, sent or received.
func checkBeat(b *Beat) error {
	switch {
	case b.Replica == 0:
		return errors.New("it is from no replica")
	case b.Leg > worker.Decode:
		return fmt.Errorf("unknown %s", b.Leg)
	}
	if err := checkString("the build", b.Build, MaxName); err != nil {
		return err
	}
	if err := checkLen("versions", len(b.Versions), MaxList); err != nil {
		return err
	}
	if err := checkLen("policies", len(b.Policies), MaxList); err != nil {
		return err
	}
	for _, p := range b.Policies {
		switch {
		case p.Name == "":
			return errors.New("a policy has no name")
		case p.Reads&^readsAll != 0:
			return fmt.Errorf("policy %q reads something unknown: %s", p.Name, p.Reads)
		}
		if err := checkString("a policy's name", p.Name, MaxName); err != nil {
			return err
		}
	}
	return checkStrings("models", b.Models, MaxString)
}
