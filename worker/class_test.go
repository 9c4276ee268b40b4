package worker

import (
	"errors"
	"testing"
)

func TestClass(t *testing.T) {
	grouped := map[string]string{GroupLabel: "blue"}
	for _, tt := range []struct {
		name string
		spec Spec
		want Class
		said string
	}{
		{"sglang", Spec{Runtime: SGLang, KVConnector: "x"}, Class{Runtime: SGLang}, "sglang"},
		{"vllm whose connector was found", Spec{Runtime: VLLM, KVConnector: MooncakeFound}, Class{Runtime: VLLM, Connector: NixlConnector}, "vllm with NixlConnector"},
		{"vllm that names no connector", Spec{Runtime: VLLM}, Class{Runtime: VLLM, Connector: NixlConnector}, "vllm with NixlConnector"},
		{"vllm", Spec{Runtime: VLLM, KVConnector: MooncakeConnector}, Class{Runtime: VLLM, Connector: MooncakeConnector}, "vllm with MooncakeConnector"},
		{"over gRPC", Spec{Runtime: SGLang, Mode: GRPC, Labels: grouped}, Class{Runtime: SGLang, Group: "blue", Transport: "grpc"}, "sglang over grpc in group blue"},
		{"of a group", Spec{Runtime: SGLang, Labels: grouped}, Class{Runtime: SGLang, Group: "blue"}, "sglang in group blue"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.spec.Class(); got != tt.want || got.String() != tt.said {
				t.Errorf("got %+v, %q; want %+v, %q", got, got, tt.want, tt.said)
			}
		})
	}
}

func TestFit(t *testing.T) {
	c := Class{Runtime: VLLM, Connector: NixlConnector, Group: "blue"}
	for _, tt := range []struct {
		name string
		fit  *Fit
		want bool
	}{
		{"none", nil, true},
		{"empty", &Fit{}, true},
		{"same", &Fit{Class: c}, true},
		{"runtime", &Fit{Class: Class{Runtime: VLLM}}, true},
		{"another runtime", &Fit{Class: Class{Runtime: SGLang}}, false},
		{"another connector", &Fit{Class: Class{Runtime: VLLM, Connector: MooncakeConnector}}, false},
		{"another group", &Fit{Class: Class{Group: "red"}}, false},
		{"over HTTP", &Fit{Class: Class{Transport: "http"}}, true},
		{"over gRPC", &Fit{Class: Class{Transport: "grpc"}}, false},
		{"like another transport", Like(Class{Runtime: VLLM, Connector: NixlConnector, Group: "blue", Transport: "grpc"}), false},
		{"like it", Like(c), true},
		{"one of the groups", &Fit{Groups: []string{"red", "blue"}}, true},
		{"none of the groups", &Fit{Class: c, Groups: []string{"red"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.fit.Admits(c); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMismatch(t *testing.T) {
	err := error(&Mismatch{Classes: []Class{{Runtime: SGLang}, {Runtime: VLLM, Connector: NixlConnector}}})
	const want = "no worker that is available fits the other leg's: there is sglang, vllm with NixlConnector"
	if !errors.Is(err, ErrMismatch) || errors.Is(err, ErrFull) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestBase(t *testing.T) {
	whole, rank := Spec{URL: "http://a:1"}, Spec{URL: "http://a:1@3", BaseURL: "http://a:1", DPSize: 4, DPRank: 3}
	if whole.Base() != "http://a:1" || rank.Base() != "http://a:1" {
		t.Errorf("got %s and %s, want http://a:1 twice", whole.Base(), rank.Base())
	}
}
