package flags

// check judges what the flags of table_auth.go say together.
func (Auth) check(*checker) {}
