package ingress

import (
	"encoding/json"
	"strconv"

	"smg/ingress/body"
)

// fieldRID is where SGLang's engines read which id a request is to have.
const fieldRID = "rid"

// renamed gives a request at SGLang's engines other ids than the client's from its second
// plan on: an engine refuses an id that runs there, and may not have noticed yet that the
// last plan's call was ended.
func renamed(edits []body.Edit, b *body.Body, plan int) []body.Edit {
	if plan == 0 {
		return edits
	}
	raw, suffix := b.Value(body.KeyRID), "-"+strconv.Itoa(plan)
	var one string
	var several []string
	switch {
	case len(raw) == 0:
	case json.Unmarshal(raw, &one) == nil && one != "":
		return append(edits, body.Set(fieldRID, body.AppendString(nil, one+suffix)))
	case json.Unmarshal(raw, &several) == nil && len(several) > 0:
		list := []byte{'['}
		for i, id := range several {
			if i > 0 {
				list = append(list, ',')
			}
			list = body.AppendString(list, id+suffix)
		}
		return append(edits, body.Set(fieldRID, append(list, ']')))
	}
	return edits
}
