package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"smg/worker"
)

// An error is the same to errors.Is where it arrives as where it was sent, and
// says the same.
func TestErrorsTravel(t *testing.T) {
	sentinels := []error{
		worker.ErrNoWorkers, worker.ErrOverloaded, worker.ErrUnavailable, worker.ErrDeclined, ErrSelectionUnavailable,
	}
	for _, tt := range []struct {
		name string
		err  error
		code string
		want error // the only sentinel that it is; nil for none
	}{
		{"no workers", worker.ErrNoWorkers, "model_not_found", worker.ErrNoWorkers},
		{"overloaded", worker.ErrOverloaded, "worker_overload_protection_shed", worker.ErrOverloaded},
		{"unavailable", worker.ErrUnavailable, "no_available_workers", worker.ErrUnavailable},
		{"declined", fmt.Errorf("%w: it is not a number", worker.ErrDeclined), "invalid_target", worker.ErrDeclined},
		{"not ready", fmt.Errorf("starting: %w", ErrSelectionUnavailable), "not_ready", ErrSelectionUnavailable},
		{"draining", &Error{Code: CodeDraining, Message: "leaving"}, "draining", ErrSelectionUnavailable},
		{"version", fmt.Errorf("x: %w", &Error{Code: CodeUnsupportedVersion}), "unsupported_version", ErrSelectionUnavailable},
		{"joined", errors.Join(errors.New("a"), worker.ErrOverloaded), "worker_overload_protection_shed", worker.ErrOverloaded},
		{"any other", context.DeadlineExceeded, "internal", nil},
		{"unknown code", &Error{Code: 200, Message: "m"}, "code(200)", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := ErrorOf(tt.err)
			if e.Code.String() != tt.code {
				t.Errorf("got code %s, want %s", e.Code, tt.code)
			}
			for _, s := range sentinels {
				if got, want := errors.Is(e, s), tt.want != nil && tt.want.Error() == s.Error(); got != want {
					t.Errorf("is %q: got %t, want %t", s, got, want)
				}
			}
			if int(e.Code) >= len(codes) {
				return
			}
			sent := &Reply{Lease: worker.LeaseID{Incarnation: 1, Plan: 1}, Replica: 1, Err: e}
			data, err := AppendReply(nil, sent)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeReply(data)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(sent, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestErrorOf(t *testing.T) {
	if e := ErrorOf(nil); e != nil {
		t.Errorf("nil: got %v", e)
	}
	if got := (&Error{Code: CodeDraining}).Error(); got != "draining" {
		t.Errorf("no message: got %q", got)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"as it is", "why", "why"},
		{"no UTF-8", "a\xffb", "a\uFFFDb"},
		{"long", strings.Repeat("x", MaxString+1), strings.Repeat("x", MaxString)},
		{"half a rune", strings.Repeat("x", MaxString-1) + "é", strings.Repeat("x", MaxString-1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ErrorOf(errors.New(tt.text)).Error()
			if got != tt.want || !utf8.ValidString(got) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
