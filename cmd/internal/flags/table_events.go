package flags

import "smg/zmtp"

// KVEvents is where engines over HTTP publish what happens to their KV caches, unless
// their labels say it; "" is nowhere. A host * is that of each worker.
type KVEvents struct {
	Endpoint string
	Replay   string // of what they remember
}

// eventTable defines the flags of KV-cache events.
func eventTable() []Def {
	return []Def{
		{
			Name: "kv-events-endpoint", Kind: Scalar, Value: "tcp://HOST:PORT", Group: groupLoads, In: choosing,
			Help: "Where engines over HTTP publish their KV-cache events (ZeroMQ), for policy cache_aware; HOST * is the worker's, data-parallel ranks are at the ports that follow. A worker's label kv_events_endpoint goes first.",
			set:  setText(func(s *Serve) *string { return &s.KVEvents.Endpoint }),
		},
		{
			Name: "kv-events-replay-endpoint", Kind: Scalar, Value: "tcp://HOST:PORT", Group: groupLoads, In: choosing,
			Help: "Where they send again what was missed, if they do. A worker's label kv_events_replay_endpoint goes first.",
			set:  setText(func(s *Serve) *string { return &s.KVEvents.Replay }),
		},
	}
}

func (e *KVEvents) check(c *checker) {
	for _, f := range []struct{ name, endpoint string }{{"kv-events-endpoint", e.Endpoint}, {"kv-events-replay-endpoint", e.Replay}} {
		if f.endpoint == "" {
			continue
		}
		if _, _, err := zmtp.ParseEndpoint(f.endpoint); err != nil {
			c.add(f.name, f.endpoint, "write it as the engine has it, such as tcp://*:5557", "not an endpoint of ZeroMQ over TCP")
		}
	}
	if e.Replay != "" && e.Endpoint == "" {
		c.add("kv-events-replay-endpoint", e.Replay, "add --kv-events-endpoint", "without an endpoint of events nothing is replayed")
	}
}
