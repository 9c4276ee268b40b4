package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	"smg/wire/wirepb"
	"smg/worker"
)

const specName = "worker"

// AppendSpec encodes a worker as it stands in the workers bucket, at the end of
// buf. A worker's own key is sealed in it. The time of registration travels exactly, to the nanosecond, since its
// order is that of the workers on every replica.
func AppendSpec(buf []byte, s *worker.Spec) ([]byte, error) {
	if err := checkSpec(s); err != nil {
		return buf, unsendable(specName, err)
	}
	m := &wirepb.Worker{
		Id:              s.ID[:],
		Url:             s.URL,
		Leg:             toEnum[wirepb.Leg](s.Leg),
		Mode:            toEnum[wirepb.Mode](s.Mode),
		Runtime:         string(s.Runtime),
		Labels:          s.Labels,
		Priority:        int64(s.Priority),
		Cost:            s.Cost,
		BootstrapHost:   s.BootstrapHost,
		BootstrapPort:   uint32(s.BootstrapPort),
		BootstrapSource: s.BootstrapSource,
		Conflict:        s.Conflict,

		OverloadWaiting:    uint64(s.Overload.Waiting),
		OverloadTokenUsage: s.Overload.TokenUsage,
		LoadIntervalUs:     uint64(s.LoadInterval.Microseconds()),

		KvConnector: s.KVConnector,
		KvRole:      s.KVRole,
		KvEngineId:  s.KVEngineID,
		DpSize:      uint32(s.DPSize),
		DpRank:      uint32(s.DPRank),
		BaseUrl:     s.BaseURL,
		Media:       s.Media,

		SealedKey: s.SealedKey,
		Revision:  s.Revision,
		Health:    healthRules(s.Health),
		Breaker:   breakerRules(s.Breaker),
		Pool:      poolRules(s.Pool),
	}
	for _, from := range s.Models {
		m.Models = append(m.Models, &wirepb.Model{Id: from.ID, Aliases: from.Aliases})
	}
	if !s.RegisteredAt.IsZero() {
		m.RegisteredUnixNs = s.RegisteredAt.UnixNano()
	}
	if !s.DrainingSince.IsZero() {
		m.DrainingUnixMs = s.DrainingSince.UnixMilli()
	}
	return marshal(buf, specName, m)
}

// DecodeSpec reads a worker and keeps nothing of data. A worker of a leg or a mode
// that is absent, or newer than this program, is an error: nobody here could
// speak to it.
func DecodeSpec(data []byte) (*worker.Spec, error) {
	var m wirepb.Worker
	if err := unmarshal(data, specName, &m); err != nil {
		return nil, err
	}
	s, err := decodeSpec(&m)
	if err == nil {
		err = checkSpec(s)
	}
	if err != nil {
		return nil, malformed(specName, err)
	}
	return s, nil
}

// checkSpec is what holds for every worker, sent or received.
func checkSpec(s *worker.Spec) error {
	switch {
	case isZero(s.ID):
		return errors.New("it has no id")
	case s.URL == "":
		return errors.New("it has no URL")
	case s.Leg > worker.Decode:
		return fmt.Errorf("unknown %s", s.Leg)
	case s.Mode > worker.GRPC:
		return fmt.Errorf("unknown connection mode %d", uint8(s.Mode))
	case !s.RegisteredAt.IsZero() && !time.Unix(0, s.RegisteredAt.UnixNano()).Equal(s.RegisteredAt):
		return fmt.Errorf("it was registered in %d", s.RegisteredAt.Year())
	}
	for _, f := range []struct {
		name, value string
		longest     int
	}{
		{"the URL", s.URL, MaxString},
		{"the runtime", string(s.Runtime), MaxName},
		{"the bootstrap host", s.BootstrapHost, MaxString},
		{"the bootstrap source", s.BootstrapSource, MaxName},
		{"the conflict", s.Conflict, MaxString},
	} {
		if err := checkString(f.name, f.value, f.longest); err != nil {
			return err
		}
	}
	if err := checkFinite("the cost", s.Cost); err != nil {
		return err
	}
	if err := checkLoad(s); err != nil {
		return err
	}
	if err := checkHandOver(s); err != nil {
		return err
	}
	if err := checkOwn(s); err != nil {
		return err
	}
	if err := checkModels(s.Models); err != nil {
		return err
	}
	return checkLabels(s.Labels)
}

// checkLoad is what holds for the limits that a worker has of its own.
func checkLoad(s *worker.Spec) error {
	switch o := s.Overload; {
	case o.Waiting < 0:
		return fmt.Errorf("an overload limit of %d waiting requests", o.Waiting)
	case !(o.TokenUsage >= 0 && o.TokenUsage <= 1): // NaN too
		return fmt.Errorf("an overload limit of token usage %v", o.TokenUsage)
	case s.LoadInterval < 0 || s.LoadInterval%time.Microsecond != 0:
		return fmt.Errorf("a load interval of %v", s.LoadInterval)
	}
	return nil
}

func checkModels(models []worker.Model) error {
	if err := checkLen("models", len(models), MaxList); err != nil {
		return err
	}
	for _, m := range models {
		if m.ID == "" {
			return errors.New("a model has no id")
		}
		if err := checkString("a model's id", m.ID, MaxString); err != nil {
			return err
		}
		if err := checkStrings("aliases", m.Aliases, MaxString); err != nil {
			return err
		}
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if err := checkLen("labels", len(labels), MaxList); err != nil {
		return err
	}
	for name, value := range labels {
		if err := checkString("a label's name", name, MaxString); err != nil {
			return err
		}
		if err := checkString("a label's value", value, MaxString); err != nil {
			return err
		}
	}
	return nil
}

func decodeSpec(m *wirepb.Worker) (*worker.Spec, error) {
	id, err := decodeID(m.Id)
	if err != nil {
		return nil, err
	}
	leg, known := fromEnum(m.Leg, worker.Decode)
	if !known {
		return nil, fmt.Errorf("unknown leg %d", m.Leg)
	}
	mode, known := fromEnum(m.Mode, worker.GRPC)
	if !known {
		return nil, fmt.Errorf("unknown connection mode %d", m.Mode)
	}
	if m.BootstrapPort > math.MaxUint16 {
		return nil, fmt.Errorf("bootstrap port %d", m.BootstrapPort)
	}
	if m.OverloadWaiting > math.MaxInt {
		return nil, fmt.Errorf("an overload limit of %d waiting requests", m.OverloadWaiting)
	}
	if m.LoadIntervalUs > uint64(math.MaxInt64/time.Microsecond) {
		return nil, fmt.Errorf("a load interval of %d µs", m.LoadIntervalUs)
	}
	s := &worker.Spec{
		ID:              id,
		URL:             m.Url,
		Leg:             leg,
		Mode:            mode,
		Runtime:         worker.Runtime(m.Runtime),
		Labels:          m.Labels,
		Priority:        int(m.Priority),
		Cost:            m.Cost,
		BootstrapHost:   m.BootstrapHost,
		BootstrapPort:   uint16(m.BootstrapPort),
		BootstrapSource: m.BootstrapSource,
		Conflict:        m.Conflict,
		Overload:        worker.OverloadLimits{Waiting: int(m.OverloadWaiting), TokenUsage: m.OverloadTokenUsage},
		LoadInterval:    time.Duration(m.LoadIntervalUs) * time.Microsecond,
		KVConnector:     m.KvConnector,
		KVRole:          m.KvRole,
		KVEngineID:      m.KvEngineId,
		DPSize:          int(m.DpSize),
		DPRank:          int(m.DpRank),
		BaseURL:         m.BaseUrl,
		Media:           m.Media,
	}
	if int64(s.Priority) != m.Priority {
		return nil, fmt.Errorf("priority %d", m.Priority)
	}
	for _, from := range m.Models {
		s.Models = append(s.Models, worker.Model{ID: from.Id, Aliases: from.Aliases})
	}
	if m.RegisteredUnixNs != 0 {
		s.RegisteredAt = time.Unix(0, m.RegisteredUnixNs).UTC()
	}
	return s, decodeOwn(s, m)
}
