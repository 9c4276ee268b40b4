package flags

// check judges what the flags of table_requests.go say together.
func (Requests) check(*checker) {}
