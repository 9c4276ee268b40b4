package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"smg/engine"
	"smg/engine/enginepb/commonpb"
)

// Prober asks engines how they are and what they are, over the connections of a Client.
// It is safe for concurrent use.
type Prober struct {
	client *Client
}

// NewProber returns a Prober that uses the connections of c.
func NewProber(c *Client) *Prober { return &Prober{c} }

// question is one that an engine can be asked twice.
type question func(ctx context.Context, d dialect, cn *conn) error

// ask puts a question to an engine of a known runtime. If the connection was there before
// and is found to be gone, it is asked again: the answer is to be of now.
func (p *Prober) ask(ctx context.Context, url, key, runtime string, q question) error {
	d, err := dialectOf(runtime)
	if err != nil {
		return fmt.Errorf("probe %s: %w", url, err)
	}
	t, err := p.client.Target(url)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer p.client.Forget(t)
	err = p.once(ctx, t, d, key, q)
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Reused && errors.Is(e.Kind, engine.ErrNoAnswer) {
		err = p.once(ctx, t, d, key, q)
	}
	return err
}

func (p *Prober) once(ctx context.Context, t *Target, d dialect, key string, q question) error {
	reused, err := t.conn.ready(ctx, p.client.cfg.ConnectTimeout)
	if err != nil {
		return t.unconnected(ctx, err)
	}
	call, what := watched(ctx)
	what.reused = reused
	if call, err = withKey(call, key); err != nil {
		return &engine.Error{Kind: engine.ErrRequest, Target: t.url, Err: fmt.Errorf("the worker's API key: %w", err)}
	}
	err = q(call, d, t.conn)
	switch {
	case err == nil:
		return nil
	case !isStatus(err):
		return fmt.Errorf("engine %s: %w", t.url, err)
	}
	return t.failure(ctx, what, err)
}

// errUnwell is the error of an engine that says that it is not well.
var errUnwell = errors.New("it says that it is not healthy")

// Health is nil when the engine says that it is well. ctx sets the time.
func (p *Prober) Health(ctx context.Context, url, key, runtime string) error {
	return p.ask(ctx, url, key, runtime, func(ctx context.Context, d dialect, cn *conn) error {
		healthy, message, err := d.health(ctx, cn.cc)
		switch {
		case err != nil:
			return err
		case healthy:
			return nil
		case message == "":
			return errUnwell
		}
		return fmt.Errorf("%w: %s", errUnwell, message)
	})
}

// Find is the runtime of the engine at url: the first protocol in which it says how it
// is. An error means that it cannot be talked to yet, or not with this key, or in none of
// the protocols that are known.
func (p *Prober) Find(ctx context.Context, url, key string) (runtime string, err error) {
	for _, runtime := range dialects() {
		err := p.Health(ctx, url, key, runtime)
		if !isRefused(err, http.StatusNotImplemented) {
			return runtime, err
		}
	}
	return "", fmt.Errorf("engine %s: it speaks gRPC, but none of the protocols of %s", url, strings.Join(dialects(), " and "))
}

func isRefused(err error, status int) bool {
	r, ok := errors.AsType[*engine.Refused](err)
	return ok && r.Status == status
}

// Discover finds out which engine answers at url, if runtime is empty or
// [engine.RuntimeGeneric], which models it serves, and the facts that routing and
// operators use, under the names of worker labels. What an engine does not offer is left
// out; an error means that it cannot be talked to yet, or not with this key.
func (p *Prober) Discover(ctx context.Context, url, key, runtime string) (info engine.Info, err error) {
	if runtime == "" || runtime == engine.RuntimeGeneric {
		if runtime, err = p.Find(ctx, url, key); err != nil {
			return engine.Info{}, err
		}
	}
	err = p.ask(ctx, url, key, runtime, func(ctx context.Context, d dialect, cn *conn) (err error) {
		info, _, err = d.describe(ctx, cn.cc)
		return err
	})
	return info, err
}

// Identify asks the engine which process it is. What it does not offer is left out.
func (p *Prober) Identify(ctx context.Context, url, key, runtime string) (id engine.Identity, err error) {
	err = p.ask(ctx, url, key, runtime, func(ctx context.Context, d dialect, cn *conn) (err error) {
		_, id, err = d.describe(ctx, cn.cc)
		return err
	})
	return id, err
}

// Flush has the engine empty its prefix cache. An engine that does not, or has no such
// call, is an error.
func (p *Prober) Flush(ctx context.Context, url, key, runtime string) error {
	return p.ask(ctx, url, key, runtime, func(ctx context.Context, d dialect, cn *conn) error {
		out, err := d.flush(ctx, cn.cc, &commonpb.FlushCacheRequest{})
		if err == nil && !out.GetSuccess() {
			return fmt.Errorf("the cache was not flushed: %s", out.GetMessage())
		}
		return err
	})
}

// labels are facts about an engine. What is empty or 0 is none.
type labels map[string]string

func (l labels) set(name, value string) {
	if value != "" {
		l[name] = value
	}
}

func (l labels) count(name string, n int64) {
	if n > 0 {
		l[name] = strconv.FormatInt(n, 10)
	}
}

func (l labels) list(name string, numbers []int32) {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatInt(int64(n), 10)
	}
	l.set(name, strings.Join(texts, ","))
}

// media notes that an engine takes pictures.
func (l labels) media(vision bool) {
	if vision {
		l["accepted_media"] = "image"
	}
}

// info is what the facts say of an engine of a runtime.
func (l labels) info(runtime string) engine.Info {
	info := engine.Info{Runtime: runtime, ModelID: engine.UnknownModel, Labels: l}
	for _, name := range []string{"served_model_name", "model_path"} {
		if id := l[name]; id != "" {
			info.ModelID, info.Models = id, []string{id}
			break
		}
	}
	return info
}
