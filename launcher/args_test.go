//go:build linux

package launcher

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// FuzzRemove takes a launcher's flags out of whatever a user may type.
func FuzzRemove(f *testing.F) {
	for _, seed := range []string{
		"--host\n0.0.0.0\n--port\n1\n--flag", "--model=x\ny", "--por\n1\n--host", "--kv_transfer_config\n{}\n--x", "--encoder-urls\na\nb\n--y", "--\n--port\n-1", "",
	} {
		f.Add(seed, true, true)
	}
	f.Fuzz(func(t *testing.T, line string, underscores, abbreviated bool) {
		args := strings.Split(line, "\n")
		o := ownedFlags{
			names:       []string{"--host", "--port", "--model", "-m", kvTransferFlag, encoderURLsFlag},
			merged:      []string{kvTransferFlag},
			underscores: underscores, abbreviated: abbreviated,
		}
		rest, dropped := o.remove(args)
		left := args
		for _, r := range rest {
			if key, _, _ := strings.Cut(r, "="); o.has(key) {
				t.Errorf("%q is left of %q", r, args)
			}
			i := slices.Index(left, r)
			if i < 0 {
				t.Fatalf("%q is not, or not there, in %q", r, args)
			}
			left = left[i+1:]
		}
		if !slices.ContainsFunc(args, func(a string) bool { key, _, _ := strings.Cut(a, "="); return o.has(key) }) && (len(rest) != len(args) || len(dropped) != 0) {
			t.Errorf("%q became %q, dropped %q", args, rest, dropped)
		}
		again, more := o.remove(rest)
		if !slices.Equal(again, rest) || len(more) != 0 {
			t.Errorf("%q became %q the second time", rest, again)
		}
		for _, d := range dropped {
			if !o.has(d) {
				t.Errorf("dropped %q of %q", d, args)
			}
		}
	})
}

// TestGPUsAreSharedOut gives engines of any size and number GPUs of any pool: each as
// many as it needs, none twice, in order, or an error where there are too few.
func TestGPUsAreSharedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := engineConfig(BackendVLLM, ModeHTTP, "")
		cfg.Encode, cfg.Prefill, cfg.Decode = rapid.IntRange(0, 3).Draw(t, "encode"), rapid.IntRange(1, 3).Draw(t, "prefill"), rapid.IntRange(1, 3).Draw(t, "decode")
		sizes := map[string]int{}
		for name, args := range map[string]*[]string{"encode": &cfg.EncodeArgs, "prefill": &cfg.PrefillArgs, "decode": &cfg.DecodeArgs} {
			sizes[name] = rapid.IntRange(1, 4).Draw(t, name+" size")
			*args = []string{"-tp", strconv.Itoa(sizes[name])}
		}
		var pool, want []string
		for i := range rapid.IntRange(0, 30).Draw(t, "pool") {
			pool = append(pool, "GPU-"+strconv.Itoa(i))
		}
		cfg.Environ = []string{visibleDevices + "=" + strings.Join(pool, ",")}
		places := cfg.line()
		need := cfg.Encode*sizes["encode"] + cfg.Prefill*sizes["prefill"] + cfg.Decode*sizes["decode"]
		err := cfg.assignGPUs(places)
		if (err != nil) != (len(pool) > 0 && need > len(pool)) {
			t.Fatalf("%d needed of %d: %v", need, len(pool), err)
		}
		if err != nil {
			return
		}
		for i := range need {
			if len(pool) > 0 {
				want = append(want, pool[i])
			} else {
				want = append(want, strconv.Itoa(i))
			}
		}
		var got []string
		for _, p := range places {
			if len(p.GPUs) != sizes[p.Role.String()] {
				t.Errorf("%s has %q", p.Name(), p.GPUs)
			}
			got = append(got, p.GPUs...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
