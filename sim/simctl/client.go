package simctl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client calls the control API of one engine. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client for the engine whose own URL is url, or for the
// control address of a process with many engines; see Engine. A nil hc means
// http.DefaultClient.
func NewClient(url string, hc *http.Client) *Client {
	if hc == nil {
		hc = http.DefaultClient
	}
	return &Client{base: strings.TrimSuffix(url, "/") + "/_sim", http: hc}
}

// SetFaults replaces all faults. Requests that are held are released.
func (c *Client) SetFaults(ctx context.Context, f Faults) error {
	return c.call(ctx, http.MethodPut, "/faults", f, nil)
}

// SetRules replaces all faults by these rules, with recording on.
func (c *Client) SetRules(ctx context.Context, rules ...Rule) error {
	return c.SetFaults(ctx, Faults{Record: true, Rules: rules})
}

// Faults returns the faults in force.
func (c *Client) Faults(ctx context.Context) (Faults, error) {
	var f Faults
	err := c.call(ctx, http.MethodGet, "/faults", nil, &f)
	return f, err
}

// Reset switches all faults off, releases what is held and forgets the
// records.
func (c *Client) Reset(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/reset", nil, nil)
}

// Release lets up to n held requests go on, all if n is 0, and returns how
// many there were. The oldest go first.
func (c *Client) Release(ctx context.Context, n int) (int, error) {
	var r Released
	err := c.call(ctx, http.MethodPost, "/release?count="+strconv.Itoa(n), nil, &r)
	return r.Released, err
}

// Ledger returns who holds what.
func (c *Client) Ledger(ctx context.Context) (Ledger, error) {
	var l Ledger
	err := c.call(ctx, http.MethodGet, "/ledger", nil, &l)
	return l, err
}

// Transfers returns what has happened between the engine and others.
func (c *Client) Transfers(ctx context.Context) (Transfers, error) {
	var t Transfers
	err := c.call(ctx, http.MethodGet, "/transfers", nil, &t)
	return t, err
}

// Records returns the recorded requests for path, in order of arrival; all of
// them if path is empty.
func (c *Client) Records(ctx context.Context, path string) ([]Record, error) {
	var r []Record
	err := c.call(ctx, http.MethodGet, "/records?path="+url.QueryEscape(path), nil, &r)
	return r, err
}

// Engines lists the engines of the process, at its control address.
func (c *Client) Engines(ctx context.Context) ([]EngineInfo, error) {
	var e []EngineInfo
	err := c.call(ctx, http.MethodGet, "/engines", nil, &e)
	return e, err
}

// Engine returns a client for engine i, if c points at a control address.
func (c *Client) Engine(i int) *Client {
	return &Client{base: c.base + "/engines/" + strconv.Itoa(i), http: c.http}
}

// WaitLedger polls the ledger until ok accepts it or ctx ends, and returns
// what it saw last.
func (c *Client) WaitLedger(ctx context.Context, ok func(Ledger) bool) (Ledger, error) {
	const pause = 2 * time.Millisecond
	for {
		l, err := c.Ledger(ctx)
		if err != nil || ok(l) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return l, fmt.Errorf("wait for the ledger, last seen %+v: %w", l, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// WaitIdle waits until nothing is in flight.
func (c *Client) WaitIdle(ctx context.Context) (Ledger, error) {
	return c.WaitLedger(ctx, Ledger.Idle)
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("control %s: encode: %w", path, err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("control %s: %w", path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("control %s: %w", path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("control %s: read: %w", path, err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("control %s: status %d: %s", path, resp.StatusCode, strings.TrimSpace(string(raw)))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("control %s: decode: %w", path, err)
	}
	return nil
}
