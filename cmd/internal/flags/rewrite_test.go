package flags

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRewrite(t *testing.T) {
	tests := []struct {
		name    string
		command string
		args    string
		want    []string // canonical line
		engine  []string
	}{
		{"both forms of values", nameLaunch, "--host a --port=1", []string{"--host=a", "--port=1"}, nil},
		{"underscores", nameLaunch, "--log_level=info --health_check_endpoint /x_y", []string{"--log-level=info", "--health-check-endpoint=/x_y"}, nil},
		{"negative number", nameLaunch, "--port -5", []string{"--port=-5"}, nil},
		{"equals in a value", nameLaunch, "--host=a=b", []string{"--host=a=b"}, nil},
		{"empty value", nameLaunch, "--host= --port 1", []string{"--host=", "--port=1"}, nil},
		{"booleans", nameLaunch, "--log-json --no-color=false", []string{"--log-json=true", "--no-color=false"}, nil},
		{"lists", nameLaunch, "--worker-urls a b --port 1 --worker-urls=c --worker-urls", []string{"--worker-urls=a", "--worker-urls=b", "--port=1", "--worker-urls=c"}, nil},
		{"workers of legs", nameLaunch, "--prefill a 1 --prefill=b --decode c --encode d none --prefill e NONE --decode=f", []string{"--prefill=a 1", "--prefill=b", "--decode=c", "--encode=d none", "--prefill=e NONE", "--decode=f"}, nil},
		{"no port behind the =", nameLaunch, "--prefill= --decode=", []string{"--prefill=", "--decode="}, nil},
		{"serve takes what begins with a dash", nameServe, "--prefill-args --a=b --decode-args=-c -d", []string{"--prefill-args=--a=b", "--decode-args=-c"}, []string{"-d"}},
		{"serve prefix", nameServe, "--router-host x", nil, nil},
		{"serve takes its own", nameServe, "--host x --router-policy=random y", []string{"--host=x", "--router-policy=random"}, []string{"y"}},
		{"serve last wins", nameServe, "--port 1 --dp-size 3 --port=2 --data_parallel_size 4", []string{"--port=2", "--data-parallel-size=4"}, nil},
		{"serve engine flags keep their spelling", nameServe, "--a_b -c --d=e_f", nil, []string{"--a_b", "-c", "--d=e_f"}},
		{"serve dashes", nameServe, "x -- --port 1 --", nil, []string{"x", "--port", "1", "--"}},
		{"serve router list", nameServe, "--router-routing-key-headers a b -c", []string{"--router-routing-key-headers=a", "--router-routing-key-headers=b"}, []string{"-c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rewrite(newSet(tt.command, Table()), strings.Fields(tt.args))
			if tt.want == nil && tt.engine == nil {
				if err == nil {
					t.Fatalf("accepted as %q", got.argv())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.argv(), cmpEmpty()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.engine, got.engineArgs, cmpEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNearMiss(t *testing.T) {
	tests := []struct{ name, args, want string }{
		{"prefix", "--dp 2", "--dp is passed to the engines; did you mean --dp-size?"},
		{"typo", "--modle x", "--modle is passed to the engines; did you mean --model?"},
		{"gateway flag without its prefix", "--prometheus-port 1", "--prometheus-port is passed to the engines; did you mean --router-prometheus-port?"},
		{"the engines' by right", "--log-level debug --engine vllm", ""},
		{"nothing alike", "--ctx-size 4096", ""},
		{"one dash", "-port 1", ""},
		{"behind dashes", "-- --dp 2", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rewrite(newSet(nameServe, Table()), strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if w := strings.Join(got.warnings, "\n"); w != tt.want {
				t.Errorf("warning %q, want %q", w, tt.want)
			}
		})
	}
}

// FuzzRewrite checks that every line is either refused with exit code 2 or brought
// into a form that means the same when it is read again.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		"", "--worker-urls http://a http://b --port -1", "--host=x --log_json --router-policy random -- --x y",
		"--prefill a 1 --prefill=b none --decode c --encode d --log-json --decode=e", "--decode-args -x --prefill-args=--y --decode-args --", "--prefill a -1",
		"--routing-key-headers --dp 2 --dp-size=1 -h -- --", "--policy --policy x", "--=-- - --_ --router-", "launch --worker-urls serve",
		"--history-backend memory --selector a b --enable-mesh=false --redis-url --oracle-password= x --router-history-backend none -tp 2 --tp 2 --tp",
	} {
		f.Add(false, false, seed)
		f.Add(true, false, seed)
		f.Add(false, true, seed)
	}
	table := Table()
	f.Fuzz(func(t *testing.T, serve, bare bool, line string) {
		command := nameLaunch
		if serve {
			command = nameServe
		}
		s := newSet(command, table)
		s.bare = bare
		args := strings.Split(line, "\x00")
		if !strings.Contains(line, "\x00") {
			args = strings.Fields(line)
		}
		before := slices.Clone(args)
		first, err := rewrite(s, args)
		if !slices.Equal(before, args) {
			t.Fatalf("the arguments were changed: %q, before %q", args, before)
		}
		if err != nil {
			var fault *Fault
			if !errors.As(err, &fault) || fault.Code != ExitUsage || fault.What == "" {
				t.Fatalf("%q: %v", args, err)
			}
			return
		}
		again := first.argv()
		if serve {
			again = append(append(again, "--"), first.engineArgs...)
		} else if first.engineArgs != nil {
			t.Fatalf("launch has engine arguments %q", first.engineArgs)
		}
		second, err := rewrite(s, again)
		if err != nil {
			t.Fatalf("%q became %q, which is refused: %v", args, again, err)
		}
		if diff := cmp.Diff(first.argv(), second.argv(), cmpEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(first.engineArgs, second.engineArgs, cmpEmpty()); diff != "" {
			t.Fatal(diff)
		}
		// What urfave/cli then says about it must be a fault too, never something else.
		if _, err := (&Input{}).fill(s, &first); err != nil {
			var fault *Fault
			if !errors.As(err, &fault) || fault.Where == "" {
				t.Fatalf("%q: %v", first.argv(), err)
			}
		}
	})
}
