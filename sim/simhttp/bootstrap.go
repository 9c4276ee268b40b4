package simhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
)

// bootstrapRoutes is the bootstrap port of an SGLang prefill engine.
func (s *Server) bootstrapRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("OK")) })
	mux.HandleFunc("GET /route", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"attn_tp_size": 1, "attn_cp_size": 1, "dp_size": s.cfg.Ranks.size(), "pp_size": 1,
			"page_size": s.cfg.Core.BlockSize, "kv_cache_dtype": "auto", "follow_bootstrap_room": true,
		})
	})
	mux.HandleFunc("POST /rooms/{room}/{sub}", s.admitPeer)
}

// admitPeer lets a decode engine wait in a room for the KV of its request,
// which may still have to arrive here. It has no time limit of its own: a
// decode engine that gives up closes its connection.
func (s *Server) admitPeer(w http.ResponseWriter, r *http.Request) {
	number, err1 := strconv.ParseInt(r.PathValue("room"), 10, 64)
	sub, err2 := strconv.Atoi(r.PathValue("sub"))
	if err1 != nil || err2 != nil {
		http.Error(w, "a room is two integers", http.StatusBadRequest)
		return
	}
	if s.faults.frozen(r.Context()) != nil {
		return
	}
	key := roomKey{number, sub, s.rankOfRoom(number)}
	if text := r.URL.Query().Get("rank"); text != "" {
		rank, err := strconv.Atoi(text)
		if err != nil || rank < 0 || rank >= s.cfg.Ranks.size() {
			w.Header().Set(protocolHeader, "1")
			http.Error(w, "there is no rank "+text, http.StatusBadRequest)
			return
		}
		key.rank = rank
	}
	room, err := s.rooms.arrive(key)
	if err != nil {
		s.roomTaken(number)
		w.Header().Set(protocolHeader, "1")
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer s.rooms.depart(room)
	meet(w)
	select {
	case <-r.Context().Done():
		return
	case got := <-room.outcome:
		if s.faults.frozen(r.Context()) != nil {
			return
		}
		h := got.handed
		h.Failure = got.failure
		s.handOver(w, h)
	}
}

// bootstrapRef is where the KV of one sequence is handed over.
type bootstrapRef struct {
	host string
	port int64
	key  roomKey
}

func (b bootstrapRef) addr() string { return fmt.Sprintf("%s:%d", b.host, b.port) }

func (b bootstrapRef) url() string {
	url := fmt.Sprintf("http://%s/rooms/%d/%d", b.addr(), b.key.room, b.key.sub)
	if b.key.rank >= 0 {
		url += "?rank=" + strconv.Itoa(b.key.rank)
	}
	return url
}

// readBootstrap reads bootstrap_host, bootstrap_port and bootstrap_room, scalars
// or lists, for every choice of t.
func (s *Server) readBootstrap(f *fields, t *task) ([]bootstrapRef, *apiError) {
	if !f.has("bootstrap_room") {
		return nil, badRequest("bootstrap_room", "Invalid request: Disaggregated request received without bootstrap room id. req.rid='%s'", t.rids[0])
	}
	rooms, fault := integers(f, "bootstrap_room")
	if fault != nil {
		return nil, fault
	}
	ports, fault := integers(f, "bootstrap_port")
	if fault != nil {
		return nil, fault
	}
	hosts := readNullable[string](f, "bootstrap_host")
	if f.err != nil {
		return nil, f.err
	}
	if s.cfg.Disagg.Mode == Decode && !f.has("bootstrap_host") {
		return nil, badRequest("bootstrap_host", "Invalid request: Disaggregated request received without bootstrap host. req.rid='%s'", t.rids[0])
	}

	if lists := rooms.list || ports.list || hosts.list; lists && s.cfg.Disagg.RefuseLists && !t.batch {
		return nil, badRequest("bootstrap_room", "bootstrap_room: Input should be a valid integer, not a list")
	}
	batch := len(t.prompts)
	if rooms.list && len(rooms.values) == t.choices() {
		batch = t.choices()
	}
	for _, l := range []struct {
		name string
		list bool
		size int
	}{
		{"bootstrap_room", rooms.list, len(rooms.values)},
		{"bootstrap_port", ports.list, len(ports.values)},
		{"bootstrap_host", hosts.list, len(hosts.values)},
	} {
		if l.list && l.size != batch {
			return nil, badRequest(l.name, "%s: a list of %d for a batch of %d", l.name, l.size, batch)
		}
	}
	refs := make([]bootstrapRef, t.choices())
	per := t.choices() / batch
	for i := range refs {
		item, sub := i/per, i%per
		room := rooms.at(item)
		if room == nil {
			return nil, badRequest("bootstrap_room", "Invalid request: Disaggregated request received without bootstrap room id. req.rid='%s'", t.rids[0])
		}
		if !rooms.list {
			sub = i
		}
		refs[i] = bootstrapRef{host: "None", port: int64(s.cfg.Disagg.BootstrapPort), key: roomKey{*room, sub, s.prefillRank(f, *room)}}
		if port := ports.at(item); port != nil {
			refs[i].port = *port
		}
		if host := hosts.at(item); host != nil {
			refs[i].host = *host
		}
	}
	return refs, nil
}

// nullable is a field that is a value or a list of values, any of them null.
type nullable[T any] struct {
	values []*T
	list   bool
}

// at returns the value for item i of a batch.
func (n nullable[T]) at(i int) *T {
	switch {
	case len(n.values) == 0:
		return nil
	case !n.list:
		return n.values[0]
	default:
		return n.values[i]
	}
}

func readNullable[T any](f *fields, name string) nullable[T] {
	if !f.has(name) {
		return nullable[T]{}
	}
	if f.raw[name][0] == '[' {
		return nullable[T]{values: read[[]*T](f, name), list: true}
	}
	v := read[T](f, name)
	return nullable[T]{values: []*T{&v}}
}

// integers reads integers. What is none is refused; what does not fit into 64
// bits is more than the real engine survives.
func integers(f *fields, name string) (out nullable[int64], _ *apiError) {
	texts := readNullable[jsonNumber](f, name)
	if f.err != nil {
		return out, f.err
	}
	out.list = texts.list
	for _, text := range texts.values {
		if text == nil {
			out.values = append(out.values, nil)
			continue
		}
		v, err := strconv.ParseInt(string(*text), 10, 64)
		if err != nil {
			return out, &apiError{status: http.StatusInternalServerError, param: name, message: name + ": Python int too large to convert to C long"}
		}
		out.values = append(out.values, &v)
	}
	return out, nil
}

// jsonNumber is an integer literal as it was written.
type jsonNumber string

// UnmarshalJSON implements json.Unmarshaler.
func (n *jsonNumber) UnmarshalJSON(raw []byte) error {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	if len(digits) == 0 || len(bytes.Trim(digits, "0123456789")) > 0 {
		return &json.UnmarshalTypeError{Value: string(raw), Type: reflect.TypeFor[int64]()}
	}
	*n = jsonNumber(raw)
	return nil
}
