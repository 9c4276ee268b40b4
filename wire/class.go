package wire

import (
	"errors"
	"fmt"
	"math"

	"smg/wire/wirepb"
	"smg/worker"
)

// fillClass sets every field of a message that may have been used before.
func fillClass(m *wirepb.Class, c worker.Class) {
	m.Runtime, m.Connector, m.Group, m.Transport = string(c.Runtime), c.Connector, c.Group, c.Transport
}

func encodeClasses(classes []worker.Class) []*wirepb.Class {
	if len(classes) == 0 {
		return nil
	}
	all := make([]*wirepb.Class, len(classes))
	for i, c := range classes {
		all[i] = &wirepb.Class{}
		fillClass(all[i], c)
	}
	return all
}

func decodeClass(m *wirepb.Class) worker.Class {
	return worker.Class{Runtime: worker.Runtime(m.GetRuntime()), Connector: m.GetConnector(), Group: m.GetGroup(), Transport: m.GetTransport()}
}

func decodeClasses(all []*wirepb.Class) []worker.Class {
	if len(all) == 0 {
		return nil
	}
	classes := make([]worker.Class, len(all))
	for i, m := range all {
		classes[i] = decodeClass(m)
	}
	return classes
}

func checkClass(c worker.Class) error {
	return errors.Join(
		checkString("the runtime", string(c.Runtime), MaxName),
		checkString("the connector", c.Connector, MaxName),
		checkString("the group", c.Group, MaxString),
		checkString("the transport", c.Transport, MaxName),
	)
}

// checkFit is what holds for every fit. A group may be that of workers without one.
func checkFit(f *worker.Fit) error {
	for _, g := range f.Groups {
		if err := checkString("one of the groups", g, MaxString); err != nil {
			return err
		}
	}
	return errors.Join(checkClass(f.Class), checkLen("groups", len(f.Groups), MaxList))
}

func checkClasses(classes []worker.Class) error {
	for _, c := range classes {
		if err := checkClass(c); err != nil {
			return err
		}
	}
	return checkLen("classes", len(classes), MaxList)
}

// checkHandOver is what holds for a worker's part in handing KV over.
func checkHandOver(s *worker.Spec) error {
	switch {
	case s.DPSize < 0 || int64(s.DPSize) > math.MaxInt32:
		return fmt.Errorf("%d data-parallel ranks", s.DPSize)
	case s.DPRank < 0 || s.DPRank > 0 && s.DPRank >= s.DPSize:
		return fmt.Errorf("data-parallel rank %d of %d", s.DPRank, s.DPSize)
	}
	return errors.Join(
		checkString("the KV connector", s.KVConnector, MaxName),
		checkString("the KV role", s.KVRole, MaxName),
		checkString("the KV engine id", s.KVEngineID, MaxString),
		checkString("the base URL", s.BaseURL, MaxString),
		checkStrings("types of media", s.Media, MaxName),
	)
}
