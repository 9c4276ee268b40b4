package worker

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// paired is a registry of ready workers of model "m", one for each class and leg.
func paired(legs map[Leg][]Class) (*Registry, map[string]*Spec) {
	r, byName, n := NewRegistry(NewFold(), 3), map[string]*Spec{}, 0
	for _, leg := range []Leg{Prefill, Decode} {
		for _, c := range legs[leg] {
			s := specAt(n, "m")
			n++
			s.Leg, s.Runtime, s.KVConnector = leg, c.Runtime, c.Connector
			if c.Group != "" {
				s.Labels = map[string]string{GroupLabel: c.Group}
			}
			r.Put(s)
			r.Install(readyAt(s.ID, 1))
			byName[leg.String()+" "+c.String()] = s
		}
	}
	return r, byName
}

var (
	sglang = Class{Runtime: SGLang}
	nixl   = Class{Runtime: VLLM, Connector: NixlConnector}
	red    = Class{Runtime: SGLang, Group: "red"}
	blue   = Class{Runtime: SGLang, Group: "blue"}
)

func TestTakeOnlyWhoFits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		classes []Class
		fit     *Fit
		want    []int // indices that may be chosen
	}{
		{"anybody", []Class{sglang, nixl, sglang}, nil, []int{0, 1, 2}},
		{"one class", []Class{sglang, nixl, sglang}, Like(sglang), []int{0, 2}},
		{"the later class", []Class{sglang, sglang, nixl}, Like(nixl), []int{2}},
		{"all are of it", []Class{sglang, sglang}, Like(sglang), []int{0, 1}},
		{"a group", []Class{red, sglang, blue, red}, Like(red), []int{0, 3}},
		{"without a group", []Class{red, sglang, blue}, Like(sglang), []int{1}},
		{"some groups", []Class{red, sglang, blue}, &Fit{Groups: []string{"blue", ""}}, []int{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := paired(map[Leg][]Class{Decode: tt.classes})
			var got []int
			_, err := r.Pool(Decode, "m").Take(&Ask{Fit: tt.fit, Now: at(0)}, func(v *View) int {
				for _, i := range v.All() {
					got = append(got, int(i))
				}
				if v.Candidates() != len(got) {
					t.Errorf("%d candidates, want %d", v.Candidates(), len(got))
				}
				return got[0]
			})
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestTakeNobodyWhoFits: the error says who is available, and only a fit that nobody
// meets is a mismatch.
func TestTakeNobodyWhoFits(t *testing.T) {
	refuse := func(v *View) int { t.Error("a choice without candidates"); return -1 }
	r, named := paired(map[Leg][]Class{Decode: {sglang, nixl, red}})
	ask := func() error {
		_, err := r.Pool(Decode, "m").Take(&Ask{Fit: Like(blue), Now: at(0)}, refuse)
		return err
	}
	var m *Mismatch
	if err := ask(); !errors.As(err, &m) || !cmp.Equal(m.Classes, []Class{sglang, nixl, red}) {
		t.Fatalf("error %v, want one that names three classes", err)
	}
	r.Install(Record{Worker: named["decode sglang"].ID, Term: 1, Seq: 2, Status: NotReady})
	if err := ask(); !errors.As(err, &m) || !cmp.Equal(m.Classes, []Class{nixl, red}) {
		t.Fatalf("error %v, want one that names the two classes that are left", err)
	}
	for _, s := range named {
		r.Install(Record{Worker: s.ID, Term: 1, Seq: 3, Status: NotReady})
	}
	if err := ask(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error %v, want %v", err, ErrUnavailable)
	}
}

// TestFitIsNotSoft: those who were tried come again, those who do not fit never.
func TestFitIsNotSoft(t *testing.T) {
	r, named := paired(map[Leg][]Class{Decode: {nixl, sglang}})
	tried := named["decode sglang"]
	taken, err := r.Pool(Decode, "m").Take(&Ask{Fit: Like(sglang), Skip: []ID{tried.ID}, Now: at(0)}, func(v *View) int { return v.Candidate(0) })
	if err != nil || taken.Worker.Spec.ID != tried.ID {
		t.Errorf("%v, %v; want the only one who fits", taken.Worker, err)
	}
}

// TestFitAndHalfOpen: who does not fit and who has no room for a probe are told apart.
func TestFitAndHalfOpen(t *testing.T) {
	r, named := paired(map[Leg][]Class{Decode: {sglang, nixl, sglang}})
	half := named["decode sglang"] // the last of that class
	r.Install(Record{Worker: half.ID, Term: 1, Seq: 2, Status: Ready, Breaker: HalfOpen})
	var got []int32
	_, err := r.Pool(Decode, "m").Take(&Ask{Fit: Like(sglang), Now: at(0)}, func(v *View) int { got = append(got, v.All()...); return 0 })
	if diff := cmp.Diff([]int32{0}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestPairing(t *testing.T) {
	for _, tt := range []struct {
		name            string
		prefill, decode []Class
		down            []string
		want            *Pairing
	}{
		{name: "a leg without workers", prefill: []Class{sglang}},
		{name: "one class", prefill: []Class{sglang, sglang}, decode: []Class{sglang}},
		{name: "one class in one group", prefill: []Class{red}, decode: []Class{red}},
		{name: "two classes", prefill: []Class{sglang, nixl}, decode: []Class{nixl, sglang}, want: &Pairing{Classes: []Class{sglang, nixl}}},
		{name: "nobody goes with anybody", prefill: []Class{sglang}, decode: []Class{nixl}, want: &Pairing{}},
		{name: "one that has no other leg", prefill: []Class{sglang, nixl}, decode: []Class{sglang}, want: &Pairing{Classes: []Class{sglang}}},
		{
			name: "the other leg is not available", prefill: []Class{sglang, nixl}, decode: []Class{nixl, sglang},
			down: []string{"decode sglang"}, want: &Pairing{Classes: []Class{nixl}},
		},
		{name: "groups", prefill: []Class{red, blue}, decode: []Class{blue, red}, want: &Pairing{Classes: []Class{red, blue}, Grouped: true}},
		{name: "half a group", prefill: []Class{red, blue}, decode: []Class{blue}, want: &Pairing{Classes: []Class{blue}, Grouped: true}},
		{name: "some without a group", prefill: []Class{red, sglang}, decode: []Class{sglang}, want: &Pairing{Classes: []Class{sglang}, Grouped: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, named := paired(map[Leg][]Class{Prefill: tt.prefill, Decode: tt.decode})
			for _, name := range tt.down {
				r.Install(Record{Worker: named[name].ID, Term: 1, Seq: 2, Status: NotReady})
			}
			if diff := cmp.Diff(tt.want, r.Pairing("m")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPairingOfOneClassAllocatesNothing(t *testing.T) {
	r, _ := paired(map[Leg][]Class{Prefill: {sglang, sglang}, Decode: {sglang}})
	r.Pairing("m") // looks at the classes once
	if n := testing.AllocsPerRun(100, func() { r.Pairing("m") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAlone(t *testing.T) {
	mooncake := Class{Runtime: VLLM, Connector: MooncakeConnector}
	for _, tt := range []struct {
		name   string
		decode []Class
		want   bool
	}{
		{"nobody", nil, false},
		{"vllm", []Class{nixl, mooncake}, true},
		{"sglang", []Class{sglang}, false},
		{"one of two", []Class{nixl, sglang}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := paired(map[Leg][]Class{Prefill: {sglang}, Decode: tt.decode})
			if got := r.Alone("m"); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestServes(t *testing.T) {
	r, named := paired(map[Leg][]Class{Prefill: {sglang}, Decode: {nixl}})
	other := specAt(9)
	other.Leg, other.Models = Decode, []Model{{ID: "other", Aliases: []string{"alias"}}}
	r.Put(other)
	p := named["prefill sglang"].ID
	for _, tt := range []struct {
		name  string
		leg   Leg
		model string
		id    ID
		want  bool
	}{
		{"its leg and model", Prefill, "m", p, true},
		{"any model", Prefill, "", p, true},
		{"another leg", Decode, "m", p, false},
		{"another leg, any model", Decode, "", p, false},
		{"another model", Decode, "m", other.ID, false},
		{"a model that nobody has", Decode, "none", other.ID, false},
		{"an alias", Decode, "alias", other.ID, true},
		{"not heard of", Decode, "m", specAt(77).ID, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Serves(tt.leg, tt.model, tt.id); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
