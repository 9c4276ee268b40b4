package simhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"smg/sim"
	"smg/sim/simtext"
)

// maxEmbeddings bounds the media that an engine remembers.
const maxEmbeddings = 4096

// embedCache remembers which media an engine has embeddings of, by content. The
// oldest are forgotten first.
type embedCache struct {
	dir string // where other engines find them too; may be empty

	mu    sync.Mutex
	order []string
	known map[string]struct{}
}

func newEmbedCache(dir string) *embedCache {
	return &embedCache{dir: dir, known: make(map[string]struct{})}
}

func (c *embedCache) has(hash string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.known[hash]
	return ok
}

// put remembers hash, and publishes it if that is asked for.
func (c *embedCache) put(hash string, publish bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[hash]; ok {
		return nil
	}
	c.known[hash] = struct{}{}
	c.order = append(c.order, hash)
	publish = publish && c.dir != ""
	if len(c.order) > maxEmbeddings {
		oldest := c.order[0]
		c.order = slices.Delete(c.order, 0, 1)
		delete(c.known, oldest)
		if publish {
			// Somebody else may have removed it.
			_ = os.Remove(filepath.Join(c.dir, oldest))
		}
	}
	if !publish {
		return nil
	}
	// Readers must not find half a file.
	temporary := filepath.Join(c.dir, "."+hash)
	if err := os.WriteFile(temporary, []byte(embeddingOf(hash)), 0o600); err != nil {
		return fmt.Errorf("publish an embedding: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(c.dir, hash)); err != nil {
		return fmt.Errorf("publish an embedding: %w", err)
	}
	return nil
}

// embeddingOf is what one engine hands to another in place of an embedding.
func embeddingOf(hash string) string { return "embedding of " + hash }

// encoderRoutes lets consumers fetch embeddings.
func (s *Server) encoderRoutes() {
	s.mux.HandleFunc("GET /ec/{hash}", func(w http.ResponseWriter, r *http.Request) {
		hash := r.PathValue("hash")
		if !s.embeds.has(hash) {
			writeJSON(w, http.StatusNotFound, detail("Not Found"))
			return
		}
		_, _ = io.WriteString(w, embeddingOf(hash))
	})
}

// readMedia notes the media of a chat, and checks that the engine can read them.
func (s *Server) readMedia(f *fields, t *task, messages []simtext.Message) {
	media, err := simtext.MediaOf(messages)
	if err != nil {
		f.fail("messages", "%v", err)
		return
	}
	for i, m := range media {
		if err := m.Check(s.cfg.Disagg.MaxMediaBytes); err != nil {
			f.fail("messages", "%s %d of the request: %v", m.Type, i+1, err)
			return
		}
	}
	t.media = media
	if s.cfg.Disagg.encodesOnly() && len(media) == 0 {
		f.fail("messages", "this engine encodes media, and the request has none")
	}
	if s.cfg.Disagg.encodesOnly() && s.faults.get().Strict {
		s.checkPrimer(f, messages)
	}
}

// refuseEncoder refuses what an encoder cannot do: anything but a chat of one
// token.
func (s *Server) refuseEncoder(t *task) *apiError {
	switch {
	case !s.cfg.Disagg.encodesOnly():
		return nil
	case len(t.media) == 0:
		return badRequest("", "this engine encodes media of chats and does nothing else")
	case t.stream || t.choices() != 1 || t.limits[0] != 1:
		return badRequest("max_tokens", "this engine encodes media: max_tokens must be 1, n 1, and stream false")
	}
	return nil
}

// see gets the embeddings of all media of t: those it has, those that encoders
// have, and the rest by its own work, unless that is forbidden.
func (s *Server) see(ctx context.Context, t *task) *apiError {
	if s.cfg.Disagg.LanguageOnly {
		return s.askEncoders(ctx, t)
	}
	var missing []string
	for _, m := range t.media {
		hash := m.Hash()
		if s.embeds.has(hash) || slices.Contains(missing, hash) {
			continue
		}
		if s.cfg.Disagg.ECRole == ECConsumer {
			if s.findEmbedding(ctx, hash) {
				s.transfers.embeddingHits.Add(1)
				if err := s.embeds.put(hash, false); err != nil {
					return &apiError{status: http.StatusInternalServerError, message: err.Error()}
				}
				continue
			}
			if ctx.Err() != nil {
				return nil
			}
			s.transfers.embeddingMisses.Add(1)
			if s.cfg.Disagg.ECStrict {
				return &apiError{status: http.StatusInternalServerError, message: fmt.Sprintf(
					"Internal server error: no encoder has the embedding %s of %s", hash, m.Type)}
			}
		}
		missing = append(missing, hash)
	}
	return s.encode(ctx, t, missing)
}

// encode computes embeddings.
func (s *Server) encode(ctx context.Context, t *task, hashes []string) *apiError {
	if len(hashes) == 0 {
		return nil
	}
	requests := make([]sim.Request, len(hashes))
	for i := range requests {
		requests[i] = sim.Request{Label: t.rids[0], PromptTokens: min(s.cfg.Disagg.MediaTokens, s.cfg.Core.Context())}
	}
	j, err := s.driver.submit(t.rids, requests, false)
	if err != nil {
		return submitFault(err)
	}
	defer s.driver.close(j)
	stop := context.AfterFunc(ctx, func() { s.driver.abort(j) })
	defer stop()
	if j.wait(ctx) != nil {
		return nil
	}
	for i, p := range j.progress(nil) {
		if p.aborted {
			return &apiError{status: http.StatusInternalServerError, message: "Aborted by AbortReq."}
		}
		s.transfers.encoded.Add(1)
		if err := s.embeds.put(hashes[i], s.cfg.Disagg.ECRole == ECProducer); err != nil {
			return &apiError{status: http.StatusInternalServerError, message: err.Error()}
		}
	}
	return nil
}

// findEmbedding looks for an embedding in the shared directory and at all
// encoders at once.
func (s *Server) findEmbedding(ctx context.Context, hash string) bool {
	if s.embeds.dir != "" {
		raw, err := os.ReadFile(filepath.Join(s.embeds.dir, hash))
		if err == nil && string(raw) == embeddingOf(hash) {
			return true
		}
	}
	peers := s.cfg.Disagg.ECPeers
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Disagg.WaitingTimeout)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	found := make(chan bool, len(peers))
	for _, peer := range peers {
		asking.Go(func() { found <- s.askEncoder(ctx, peer, hash) })
	}
	for range peers {
		if <-found {
			return true
		}
	}
	return false
}

func (s *Server) askEncoder(ctx context.Context, peer, hash string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(peer, "/")+"/ec/"+hash, nil)
	if err != nil {
		return false
	}
	resp, err := s.peers.Do(req)
	if err != nil {
		s.log.Debug("encoder does not answer", "peer", peer, "error", err)
		return false
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return err == nil && resp.StatusCode == http.StatusOK && string(raw) == embeddingOf(hash)
}
