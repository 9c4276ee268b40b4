package flags

import "strconv"

// Replay is what recordings are run again with. The settings of policies are those of
// [Launch].
type Replay struct {
	Files    []string
	Policies []string // none for all that suit the leg
	// Workers, Model and OutputTokens are 0 or empty for what the recording says.
	Workers      int
	Model        string
	OutputTokens int
	Rate         float64
	Rounds       int
	Seed         int64

	// The rest is the engines.
	PrefillTPS   float64 // tokens per second
	KVTokens     int
	BlockTokens  int
	ChunkTokens  int
	MaxRunning   int
	DecodeStepMS float64
	DecodeSeqUS  float64
}

// replay is the command without what its values mean together.
func (s *Serve) replay(files []string) (*Replay, error) {
	if len(files) == 0 {
		return nil, usage("", "name the FILE that smg launch --record FILE has written", "there is nothing to replay")
	}
	r := s.Replay
	r.Files = files
	return &r, nil
}

// check reports what no replay can be run with. l has the settings of policies.
func (r *Replay) check(c *checker, l *Launch) {
	for _, name := range r.Policies {
		c.checkSettings(l.PolicyConfig(name))
	}
	c.checkPositive("load-monitor-interval", int64(l.LoadMonitorInterval))
	for _, f := range []struct {
		name  string
		value float64
		zero  bool // is a value
	}{{"rate", r.Rate, false}, {"prefill-tps", r.PrefillTPS, false}, {"decode-step-ms", r.DecodeStepMS, true}, {"decode-seq-us", r.DecodeSeqUS, true}} {
		if f.value > 0 || f.zero && f.value == 0 {
			continue
		}
		rule := "must be more than 0"
		if f.zero {
			rule = "must not be negative"
		}
		c.add(f.name, strconv.FormatFloat(f.value, 'g', -1, 64), "give another number", "%s", rule)
	}
	if r.KVTokens < 2*r.BlockTokens {
		c.add("kv-tokens", strconv.Itoa(r.KVTokens), "give more, or a smaller --kv-block-tokens", "an engine needs two blocks at least")
	}
}
