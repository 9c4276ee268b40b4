package flags

import "smg/policy"

// legTable defines the flags of prefill/decode and encode/prefill/decode.
func legTable() []Def {
	return []Def{
		{
			Name: "pd-disaggregation", Kind: Bool, Group: groupLegs, In: InLaunch | InIngress,
			Help: "Send each request to a prefill and a decode worker.",
			set:  setMode(PD),
		},
		{
			Name: "epd-disaggregation", Kind: Bool, Group: groupLegs, In: InLaunch | InIngress,
			Help: "Send each request to a prefill and a decode worker, and its media to encode workers.",
			set:  setMode(EPD),
		},
		{
			Name: "prefill", Kind: URLAndPort, Value: "URL [PORT|none]", Group: groupLegs, In: InLaunch | InIngress, Everyday: true,
			Help: "A prefill worker and its bootstrap port, once for each (with --pd-disaggregation).",
			set: func(s *Serve, v string) error {
				s.Prefill = append(s.Prefill, parseLegWorker(v))
				return nil
			},
			clear: func(s *Serve) { s.Prefill = nil },
		},
		{
			Name: "decode", Kind: Repeated, Value: "URL", Group: groupLegs, In: InLaunch | InIngress, Everyday: true,
			Help: "A decode worker, once for each (with --pd-disaggregation).",
			set: func(s *Serve, v string) error {
				s.Decode = append(s.Decode, v)
				return nil
			},
			clear: func(s *Serve) { s.Decode = nil },
		},
		{
			Name: "encode", Kind: URLAndPort, Value: "URL [PORT|none]", Group: groupLegs, In: InLaunch | InIngress,
			Help: "An encode worker and its bootstrap port, once for each (with --epd-disaggregation).",
			set: func(s *Serve, v string) error {
				s.Encode = append(s.Encode, parseLegWorker(v))
				return nil
			},
			clear: func(s *Serve) { s.Encode = nil },
		},
		{
			Name: "prefill-policy", Kind: Scalar, Value: "POLICY", Group: groupLegs, In: gateway,
			Help: "How a prefill worker is chosen, if not by --policy.",
			set:  setLegPolicy(func(s *Serve) (*string, *bool) { return &s.PrefillPolicy, &s.PrefillPolicySet }),
		},
		{
			Name: "decode-policy", Kind: Scalar, Value: "POLICY", Group: groupLegs, In: gateway,
			Help: "How a decode worker is chosen, if not by --policy.",
			set:  setLegPolicy(func(s *Serve) (*string, *bool) { return &s.DecodePolicy, &s.DecodePolicySet }),
		},
		{
			Name: "encode-policy", Kind: Scalar, Value: "POLICY", Default: policy.ConsistentHashing, Group: groupLegs, In: gateway,
			Help: "How an encode worker is chosen: random, round_robin or consistent_hashing.",
			set:  setEnum(func(s *Serve) *string { return &s.EncodePolicy }, "policy of the encode leg", encodePolicies()),
		},
	}
}

// setMode asks for a mode.
func setMode(m Mode) func(*Serve, string) error {
	return func(s *Serve, v string) error {
		var on bool
		if err := setBool(func(*Serve) *bool { return &on })(s, v); err != nil {
			return err
		}
		if on {
			s.Mode = max(s.Mode, m)
		}
		return nil
	}
}
