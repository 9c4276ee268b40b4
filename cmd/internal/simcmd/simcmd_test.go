package simcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDocs demands that the manual names every flag.
func TestDocs(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/sim.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range Flags() {
		if name := "`--" + flag.Names()[0]; !strings.Contains(string(manual), name) {
			t.Errorf("docs/sim.md does not mention %s", name)
		}
	}
}

func TestJoined(t *testing.T) {
	tests := []struct{ args, want string }{
		{"--encoder-urls a b --x y", "--encoder-urls a,b --x y"},
		{"-encoder-urls a,b c", "-encoder-urls a,b,c"},
		{"--encoder-urls a --encoder-urls b c", "--encoder-urls a --encoder-urls b,c"},
		{"--encoder-urls=a b", "--encoder-urls=a b"},
		{"--encoder-urls --x", "--encoder-urls --x"},
		{"--encoder-urls", "--encoder-urls"},
		{"encoder-urls a b", "encoder-urls a b"},
		{"--x -- --encoder-urls a b", "--x -- --encoder-urls a b"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := strings.Join(joined(strings.Fields(tt.args)), " "); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestMainInProcess(t *testing.T) {
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name string
		args []string
		code int
		want string // part of standard error
	}{
		{"serves until the context ends", []string{"--port", "0", "--control-port", "0"}, 0, "listening on http://127.0.0.1:"},
		{"instant", []string{"--port", "0", "--instant"}, 0, "listening on http://127.0.0.1:"},
		{"gRPC", []string{"--port", "0", "--engine", "vllm", "--grpc-mode", "--kv-events", "--engines", "2"}, 0, " and 1 more, up to grpc://127.0.0.1:"},
		{"gRPC at once", []string{"--grpc-mode", "--instant"}, 2, "--grpc-mode has no meaning with --instant"},
		{"an encoder over gRPC", []string{"--grpc-mode", "--encoder-only"}, 2, "--grpc-mode is not for encoders"},
		{"usage", []string{"--nope"}, 2, "smg-sim: unknown flag --nope"},
		{"range", []string{"--decode-step-ms", "-1"}, 2, "--decode-step-ms"},
		{"a prefill engine", []string{"--port", "0", "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", "0"}, 0, ", for other engines on 127.0.0.1:"},
		{"a producer", []string{"--port", "0", "--engine", "vllm", "--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_producer","engine_id":"e","kv_connector_extra_config":{"kv_lease_duration":9}}`, "--kv-side-channel-port", "0"}, 0, ", for other engines on 127.0.0.1:"},
		{"an encoder", []string{"--port", "0", "--engine", "vllm", "--ec-transfer-config", `{"ec_connector":"ECExampleConnector","ec_role":"ec_producer","ec_connector_extra_config":{"shared_storage_path":"/tmp"}}`}, 0, "listening on"},
		{"encoders as SGLang takes them", []string{"--port", "0", "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", "0", "--language-only", "--encoder-urls", "http://127.0.0.1:1", "http://127.0.0.1:2"}, 0, "listening on"},
		{"a role of the other engine", []string{"--engine", "vllm", "--disaggregation-mode", "prefill"}, 2, "--kv-role"},
		{"an unknown mode", []string{"--disaggregation-mode", "both"}, 2, "--disaggregation-mode must be"},
		{"no connector", []string{"--engine", "vllm", "--kv-transfer-config", `{"kv_role":"kv_both"}`}, 2, "kv_connector is missing"},
		{"another connector", []string{"--port", "0", "--engine", "vllm", "--kv-transfer-config", `{"kv_connector":"MooncakeConnector","kv_role":"kv_producer"}`, "--kv-side-channel-port", "0"}, 0, ", for other engines on 127.0.0.1:"},
		{"two roles", []string{"--engine", "vllm", "--kv-role", "kv_consumer", "--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_producer"}`}, 2, "--kv-role kv_consumer"},
		{"no role", []string{"--engine", "vllm", "--ec-transfer-config", `{}`}, 2, "ec_role is missing"},
		{"no JSON", []string{"--engine", "vllm", "--kv-transfer-config", `kv_producer`}, 2, "--kv-transfer-config must be"},
		{"no time", []string{"--kv-lease", "0s"}, 2, "--kv-lease must be positive"},
		{"unusable address", []string{"--host", "256.0.0.1"}, 1, "cannot listen on 256.0.0.1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := Main(stopped, tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("code %d, want %d", code, tc.code)
			}
			if stdout.Len() > 0 || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("standard output %q, standard error %q", &stdout, &stderr)
			}
		})
	}
}

// TestCommand runs the subcommand inside another application.
func TestCommand(t *testing.T) {
	app := &cli.App{
		Name: "other", Commands: []*cli.Command{Command(io.Discard)},
		Writer: io.Discard, ErrWriter: io.Discard,
		ExitErrHandler: func(*cli.Context, error) {},
	}
	err := app.Run([]string{"other", "sim", "--engines", "0"})
	coded, ok := errors.AsType[cli.ExitCoder](err)
	if !ok || coded.ExitCode() != 2 || !strings.Contains(err.Error(), "--engines") {
		t.Errorf("got %v", err)
	}
}
