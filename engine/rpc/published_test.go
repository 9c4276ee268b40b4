package rpc

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
)

// TestGatewayPublished: bytes of the published stubs say to ours what was said. make test-grpc compares all of the messages.
func TestGatewayPublished(t *testing.T) {
	t.Run("59_bytes_of_the_published_stubs", func(t *testing.T) {
		raw, err := os.ReadFile("testdata/published.json") // see test/grpc/record.py
		if err != nil {
			t.Fatal(err)
		}
		var all []struct {
			Message string
			Says    json.RawMessage
			Bytes   string
		}
		if err := json.Unmarshal(raw, &all); err != nil {
			t.Fatal(err)
		}
		if len(all) < 10 {
			t.Fatalf("%d messages were recorded", len(all))
		}
		for _, m := range all {
			kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(m.Message))
			if err != nil {
				t.Fatal(err)
			}
			sent, err := hex.DecodeString(m.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			got, want := kind.New().Interface(), kind.New().Interface()
			if err := proto.Unmarshal(sent, got); err != nil {
				t.Fatal(err)
			}
			if err := protojson.Unmarshal(m.Says, want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", m.Message, diff)
			}
			if n := proto.Size(want); n != len(sent) { // fields may come in another order
				t.Errorf("%s: ours has %d bytes, theirs %d", m.Message, n, len(sent))
			}
		}
	})
}
