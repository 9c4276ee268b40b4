package wire

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/wire/wirepb"
	"smg/worker"
)

// A malformed select is answered as far as it says whose it is.
func TestRefuse(t *testing.T) {
	c, err := ParseCluster("default")
	if err != nil {
		t.Fatal(err)
	}
	service := c.Select(worker.Decode, 9)
	for _, tt := range []struct {
		name string
		data []byte
		want Code
		none bool
	}{
		{name: "newer leg", data: spoilt(t, func(m *wirepb.Select) { m.Leg = 7 }), want: CodeUnsupportedVersion},
		{name: "another leg", data: spoilt(t, func(m *wirepb.Select) { m.Leg = wirepb.Leg_LEG_ENCODE }), want: CodeInternal},
		{name: "torn key", data: spoilt(t, func(m *wirepb.Select) { m.HeaderKey.Sum = nil }), want: CodeInternal},
		{name: "no plan", data: spoilt(t, func(m *wirepb.Select) { m.Plan = 0 }), none: true},
		{name: "no incarnation", data: spoilt(t, func(m *wirepb.Select) { m.Incarnation = 0 }), none: true},
		{name: "junk", data: []byte("junk"), none: true},
		{name: "too large", data: make([]byte, MaxMessage+1), none: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := service.Decode(tt.data)
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("got %v, want %v", err, ErrMalformed)
			}
			got := service.Refuse(tt.data, err)
			if tt.none {
				if got != nil {
					t.Fatalf("answered %+v", got)
				}
				return
			}
			want := &Reply{
				Lease:   worker.LeaseID{Incarnation: 1, Plan: 1, Leg: worker.Decode},
				Replica: 9,
				Err:     &Error{Code: tt.want, Message: err.Error()},
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if _, err := service.AppendAnswer(nil, got); err != nil {
				t.Error(err)
			}
		})
	}
}

func spoilt(t *testing.T, do func(*wirepb.Select)) []byte {
	m := goodSelect()
	do(m)
	return mustMarshal(t, m)
}

// What a client wrote travels whole, and if it is too long to mean anything it
// arrives as something that means nothing.
func TestSelectCarriesAnyText(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no UTF-8", "\xff\x00", "\xff\x00"},
		{"longest", strings.Repeat("x", MaxString), strings.Repeat("x", MaxString)},
		{"too long", strings.Repeat("1", MaxString+1), strings.Repeat("1", MaxString) + "…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, err := AppendSelect(nil, &Select{Lease: worker.LeaseID{Incarnation: 1, Plan: 1}, Model: tt.text, Target: tt.text})
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeSelect(data)
			if err != nil {
				t.Fatal(err)
			}
			if got.Model != tt.want || got.Target != tt.want {
				t.Errorf("got %q and %q, want %q", got.Model, got.Target, tt.want)
			}
			if _, err := strconv.Atoi(got.Target); err == nil {
				t.Error("the target is a number")
			}
			again, err := AppendSelect(nil, got) // what was cut is not cut again
			if err != nil {
				t.Fatal(err)
			}
			if twice, err := DecodeSelect(again); err != nil || twice.Model != tt.want {
				t.Errorf("sent on: got %v, %v", twice, err)
			}
		})
	}
}

// Encoders use their memory again; nothing of one message is left in the next.
func TestEncodersForget(t *testing.T) {
	for _, order := range [][]string{{"select-full", "select-least"}, {"reply-pick", "reply-error", "reply-least", "reply-pick"}} {
		for _, name := range order {
			for _, r := range recordings() {
				if r.name != name {
					continue
				}
				data, err := r.codec.append(nil, r.want)
				if err != nil {
					t.Fatal(err)
				}
				got, err := r.codec.decode(data)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(r.want, got); d != "" {
					t.Errorf("%s (-want +got):\n%s", name, d)
				}
			}
		}
	}
}
