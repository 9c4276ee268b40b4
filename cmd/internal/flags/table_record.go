package flags

// recordTable defines the flags of recordings.
func recordTable() []Def {
	return []Def{
		{
			Name: "record", Kind: Scalar, Value: "FILE", Group: groupRecording, In: choosing,
			Help: "Write what selectors are asked and choose to a file that smg replay reads, compressed if its name ends in .gz; prompts as digests.",
			set:  setPath(func(s *Serve) *string { return &s.Record }),
		},
		{
			Name: "record-prompts", Kind: Bool, Group: groupRecording, In: choosing,
			Help: "Write prompts themselves into the recording.",
			set:  setBool(func(s *Serve) *bool { return &s.RecordPrompts }),
		},
	}
}

// checkRecord refuses what has no meaning alone, and files that cannot be made.
func (l *Launch) checkRecord(c *checker) {
	if l.RecordPrompts && l.Record == "" {
		c.add("record-prompts", "true", "add --"+c.prefix+"record FILE", "nothing is recorded")
	}
	c.checkRecording(l.Record)
}
