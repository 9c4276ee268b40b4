package flags

// check judges what the flags of table_admission.go say together.
func (Admission) check(*checker) {}
