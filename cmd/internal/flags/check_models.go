package flags

import "slices"

// check judges what the flags of table_models.go say together.
func (m Models) check(c *checker) {
	for i, a := range m.Aliases {
		before := slices.IndexFunc(m.Aliases[:i], func(b ModelAlias) bool { return b.Name == a.Name })
		if before >= 0 && m.Aliases[before].Model != a.Model {
			c.add("model-alias", a.Name+"="+a.Model, "keep one of the two", "%s is another name of %s already", a.Name, m.Aliases[before].Model)
		}
	}
}
