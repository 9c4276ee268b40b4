package flags

// check judges what the flags of table_models.go say together.
func (Models) check(*checker) {}
