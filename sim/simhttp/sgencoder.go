package simhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"smg/sim/simtext"
)

// SGEncoder is the part of an SGLang engine in encoding media for others. Engines find
// each other by themselves: whoever sends requests has no part in it.
type SGEncoder struct {
	// EncoderOnly engines encode and answer no chats.
	EncoderOnly bool
	// LanguageOnly engines encode nothing: they ask EncoderURLs, and fail a request
	// whose embeddings have not come within EncoderTimeout.
	LanguageOnly   bool
	EncoderURLs    []string
	EncoderTimeout time.Duration
}

func (e SGEncoder) validate(d Disaggregation, k Kind, bad func(format string, args ...any)) {
	switch {
	case k != SGLang && (e.EncoderOnly || e.LanguageOnly || len(e.EncoderURLs) > 0):
		bad("--encoder-only, --language-only and --encoder-urls are of sglang; the roles of vllm are --kv-role and --ec-role")
	case e.EncoderOnly && (e.LanguageOnly || d.Mode != Unified):
		bad("--encoder-only goes with no other role")
	case e.LanguageOnly && d.Mode != Prefill:
		bad("--language-only is simulated for --disaggregation-mode prefill alone")
	case e.LanguageOnly != (len(e.EncoderURLs) > 0):
		bad("--language-only and --encoder-urls go together")
	case e.EncoderTimeout <= 0:
		bad("--encoder-timeout must be positive, not %v", e.EncoderTimeout)
	}
}

// encodeAsk is the body of POST /encode.
type encodeAsk struct {
	Items    []string `json:"mm_items"`
	ID       string   `json:"req_id"`
	Parts    int      `json:"num_parts"`
	Part     int      `json:"part_idx"`
	Modality string   `json:"modality"`
	Host     string   `json:"prefill_host"`
	Port     *int     `json:"embedding_port"`
}

// receiveAsk is the body of POST /scheduler_receive_url.
type receiveAsk struct {
	ID       string `json:"req_id"`
	URL      string `json:"receive_url"`
	Count    int    `json:"receive_count"`
	Modality string `json:"modality"`
}

// embedded is what an encoder hands over in place of embeddings.
type embedded struct {
	ID     string   `json:"req_id"`
	Part   int      `json:"part_idx"`
	Hashes []string `json:"hashes"`
}

// destinations are where embeddings of requests are to go, told before or after the
// encoder is asked for them.
type destinations struct {
	mu sync.Mutex
	of map[string]*destination
}

type destination struct {
	known chan struct{} // closed when url is known
	url   string
	users int
}

// at returns the destination of a request, until done is called.
func (d *destinations) at(id string) (found *destination, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[string]*destination{}
	}
	found = d.of[id]
	if found == nil {
		found = &destination{known: make(chan struct{})}
		d.of[id] = found
	}
	found.users++
	return found, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if found.users--; found.users == 0 {
			delete(d.of, id)
		}
	}
}

// tell notes where the embeddings of a request go.
func (d *destinations) tell(id, url string) {
	found, _ := d.at(id) // it stays until it was used
	d.mu.Lock()
	defer d.mu.Unlock()
	if found.url == "" {
		found.url = url
		close(found.known)
	}
	found.users--
}

// sgEncoderRoutes is all that an SGLang encoder answers.
func (s *Server) sgEncoderRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /health", s.healthGenerate) // a tiny encode
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("POST /scheduler_receive_url", func(w http.ResponseWriter, r *http.Request) {
		var q receiveAsk
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.ID == "" || q.URL == "" {
			s.encodeFault(w, http.StatusBadRequest, q.ID, "req_id and receive_url are needed")
			return
		}
		s.destinations.tell(q.ID, q.URL)
		writeJSON(w, http.StatusOK, nil)
	})
	mux.HandleFunc("POST /encode", s.answerEncode)
}

// encodeFault is an error in the words of an SGLang encoder.
func (s *Server) encodeFault(w http.ResponseWriter, status int, id, message string) {
	s.stats.refused.Add(1)
	writeJSON(w, status, map[string]string{"status": "error", "message": message, "req_id": id})
}

// answerEncode answers POST /encode: it encodes the items and sends the embeddings to
// the prefill engine, which has said where it waits for them.
func (s *Server) answerEncode(w http.ResponseWriter, r *http.Request) {
	var q encodeAsk
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		s.encodeFault(w, http.StatusBadRequest, q.ID, err.Error())
		return
	}
	out := embedded{ID: q.ID, Part: q.Part}
	for _, url := range q.Items {
		m := simtext.Media{Type: q.Modality + "_url", URL: url}
		if err := m.Check(s.cfg.Disagg.MaxMediaBytes); err != nil {
			s.encodeFault(w, http.StatusBadRequest, q.ID, err.Error())
			return
		}
		out.Hashes = append(out.Hashes, m.Hash())
	}
	if q.ID == "" || len(out.Hashes) == 0 {
		s.encodeFault(w, http.StatusBadRequest, q.ID, "req_id and mm_items are needed")
		return
	}
	to, done := s.destinations.at(q.ID)
	defer done()
	if fault := s.encode(r.Context(), &task{rids: []string{q.ID}}, out.Hashes); fault != nil {
		s.encodeFault(w, fault.status, q.ID, fault.message)
		return
	}
	timer := time.NewTimer(s.cfg.Disagg.EncoderTimeout)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return
	case <-timer.C:
		s.encodeFault(w, http.StatusGatewayTimeout, q.ID, "nobody has said where the embeddings go")
		return
	case <-to.known:
	}
	if err := s.tellPeer(r.Context(), "http://"+to.url+"/embeddings", out); err != nil {
		s.encodeFault(w, http.StatusServiceUnavailable, q.ID, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, nil)
}

// tellPeer posts v to another engine.
func (s *Server) tellPeer(ctx context.Context, url string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("tell another engine: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("tell another engine: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.peers.Do(req)
	if err != nil {
		return fmt.Errorf("tell another engine: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// receivers are the requests that wait for embeddings.
type receivers struct {
	mu sync.Mutex
	of map[string]chan embedded
}

func (r *receivers) open(id string, parts int) (come <-chan embedded, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]chan embedded{}
	}
	ch := make(chan embedded, parts)
	r.of[id] = ch
	return ch, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.of, id)
	}
}

// take answers an encoder that brings embeddings.
func (r *receivers) take(w http.ResponseWriter, req *http.Request) {
	var got embedded
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxControlBytes)).Decode(&got); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	ch := r.of[got.ID]
	r.mu.Unlock()
	select {
	case ch <- got: // nil for a request that is not there
		w.WriteHeader(http.StatusOK)
	default:
		http.Error(w, "nobody waits for embeddings of "+got.ID, http.StatusNotFound)
	}
}

// share is what one encoder encodes of a request.
type share struct {
	encoder  string
	modality string
	urls     []string
}

// shares splits media among encoders as SGLang does: those of one modality as evenly as
// possible over encoders in random order.
func (s *Server) shares(media []simtext.Media) (all []share) {
	urls := s.cfg.Disagg.EncoderURLs
	for _, kind := range []string{"image", "video", "audio"} {
		var items []string
		for _, m := range media {
			if m.Kind() == kind {
				items = append(items, m.URL)
			}
		}
		for i, e := range rand.Perm(len(urls)) {
			n := len(items) / (len(urls) - i)
			if len(items)%(len(urls)-i) > 0 {
				n++
			}
			if n > 0 {
				all = append(all, share{encoder: strings.TrimSuffix(urls[e], "/"), modality: kind, urls: items[:n]})
				items = items[n:]
			}
		}
	}
	return all
}

// askEncoders gets the embeddings of all media of t from encoders.
func (s *Server) askEncoders(ctx context.Context, t *task) *apiError {
	if len(t.media) == 0 {
		return nil
	}
	all := s.shares(t.media)
	id := t.rids[0] + "-" + s.freshID()[:8]
	come, done := s.receivers.open(id, len(all))
	defer done()
	host, port, err := net.SplitHostPort(s.PeerAddr())
	if err != nil {
		return &apiError{status: http.StatusInternalServerError, message: "no port for embeddings: " + err.Error()}
	}
	limit := s.cfg.Disagg.EncoderTimeout
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for k, part := range all {
		asking.Go(func() {
			where := receiveAsk{ID: id, URL: net.JoinHostPort(host, port), Count: len(all), Modality: part.modality}
			what := encodeAsk{Items: part.urls, ID: id, Parts: len(all), Part: k, Modality: part.modality, Host: host}
			err := s.tellPeer(ctx, part.encoder+"/scheduler_receive_url", where)
			if err == nil {
				err = s.tellPeer(ctx, part.encoder+"/encode", what)
			}
			if err != nil { // SGLang waits on, in vain
				s.log.Debug("encoder does not encode", "encoder", part.encoder, "error", err)
			}
		})
	}
	for range all {
		select {
		case got := <-come:
			s.transfers.embeddingHits.Add(uint64(len(got.Hashes)))
		case <-ctx.Done():
			if errors.Is(parent.Err(), context.Canceled) {
				return nil
			}
			s.transfers.embeddingMisses.Add(uint64(len(t.media)))
			return &apiError{status: http.StatusRequestTimeout, message: fmt.Sprintf("Timeout waiting for image embedding after %gs", limit.Seconds())}
		}
	}
	return nil
}
