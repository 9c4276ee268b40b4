package flags

import "time"

// serviceTable defines the flags of the services as such: how they find each other,
// and whether they are processes of their own.
func serviceTable() []Def {
	return []Def{
		{
			Name: "topology", Kind: Scalar, Value: "NAME", Default: Single.String(), Group: groupBus, In: gateway,
			Help: "single: all services in one process; split: a child process for each.",
			set:  setTopology,
		},
		{
			Name: "dry-run", Kind: Bool, Group: groupAddress, In: InLaunch | InServe,
			Help: "Say what would be done, as smg check does, and do nothing.",
			set:  setBool(func(s *Serve) *bool { return &s.DryRun }),
		},
		{
			Name: "nats-url", Kind: Scalar, Value: "URL[,URL]", Env: []string{"SMG_NATS_URL"}, Secret: true, Group: groupBus, In: everyProcess,
			Help: "NATS servers to use instead of the built-in one, such as nats://n1:4222,nats://n2:4222.",
			set:  setNATSURLs,
		},
		{
			Name: "nats-listen", Kind: Scalar, Value: "USER:PASSWORD@HOST:PORT", Secret: true, Group: groupBus, In: gateway,
			Help: "Address of the built-in NATS server, so that other services can join with these credentials.",
			set:  setNATSListen,
		},
		{
			Name: "state-dir", Kind: Scalar, Value: "DIR", Group: groupBus, In: gateway,
			Help: "Folder where the built-in NATS server keeps workers and pins over a restart (in memory, for as long as it runs).",
			set:  setPath(func(s *Serve) *string { return &s.Bus.StateDir }),
		},
		{
			Name: "nats-replicas", Kind: Scalar, Value: "N", Group: groupBus, In: everyProcess,
			Help: "Copies that a NATS cluster keeps of who exists (3, or one for each server where there are fewer).",
			set:  setNumber(func(s *Serve) *int { return &s.Bus.Replicas }, 1, maxReplicas),
		},
		{
			Name: "nats-creds", Kind: Scalar, Value: "FILE", Group: groupBus, In: everyProcess,
			Help: "Credentials for the NATS servers.",
			set:  setPath(func(s *Serve) *string { return &s.Bus.Creds }),
		},
		{
			Name: "nats-tls-ca", Kind: Scalar, Value: "FILE", Group: groupBus, In: everyProcess,
			Help: "Certificates that those of the NATS servers are checked against.",
			set:  setPath(func(s *Serve) *string { return &s.Bus.CA }),
		},
		{
			Name: "leg", Kind: Scalar, Value: "LEG", Group: groupLegs, In: InSelector, Everyday: true,
			Help: "Leg to select workers for: regular, encode, prefill or decode.",
			set:  setLeg,
		},
		{
			Name: "plan-timeout-ms", Kind: Scalar, Value: "MS", Default: "200", Group: groupPolicy, In: serving,
			Help: "How long a selector may take to answer.",
			set:  setMilliseconds(func(s *Serve) *time.Duration { return &s.PlanTimeout }),
		},
		{
			Name: "degraded-selection", Kind: Scalar, Value: "HOW", Default: degradedLocal, Group: groupPolicy, In: serving,
			Help: "Without an answer, choose from what is known here (local) or refuse the request (fail).",
			set:  setDegraded,
		},
	}
}

// maxReplicas is NATS's own limit.
const maxReplicas = 5
