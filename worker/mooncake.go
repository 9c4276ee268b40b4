package worker

import "strconv"

// MooncakeID is the id by which decode workers ask for KV of a vLLM prefill worker
// with Mooncake. It is not known where nobody has said, and where several ranks could
// have the KV: each has an id of its own, and only a worker that is one of them tells
// which.
func (s *Spec) MooncakeID() (id string, ok bool) {
	if s.KVEngineID == "" {
		return "", false
	}
	size := s.DPSize
	if text, said := s.Labels["dp_size"]; said && size == 0 {
		if n, err := strconv.Atoi(text); err != nil || n != 1 {
			return "", false
		}
	}
	if size > 1 {
		return s.KVEngineID + "_dp" + strconv.Itoa(s.DPRank), true
	}
	return s.KVEngineID, true
}
