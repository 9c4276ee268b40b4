package flags

// Admission is how many requests are served at the same time, and who waits.
type Admission struct{}

// admissionTable defines the flags of [Admission].
func admissionTable() []Def { return nil }
