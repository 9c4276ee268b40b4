package flags

// check judges what the flags of table_trace.go say together.
func (Trace) check(*checker) {}
