package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The oldest server that will do.
const (
	minMajor = 2
	minMinor = 11
)

// checkVersion is an error for a server that is known to be too old.
func checkVersion(version string) error {
	majorText, rest, _ := strings.Cut(version, ".")
	minorText, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(majorText)
	if err != nil {
		return nil
	}
	minor, err := strconv.Atoi(minorText)
	if err != nil {
		return nil
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return fmt.Errorf("the server has version %s: install %d.%d or newer", version, minMajor, minMinor)
	}
	return nil
}

// checkJetStream is an error for a server that is known to have no JetStream for
// us. One that does not answer may yet do so: what needs it says so and waits.
func checkJetStream(js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	_, err := js.AccountInfo(ctx)
	if isNoJetStream(err) {
		return jetStreamError(err)
	}
	return nil
}

func isNoJetStream(err error) bool {
	return errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) || errors.Is(err, jetstream.ErrJetStreamNotEnabled)
}

// jetStreamError says what to do about a server that has no JetStream; any other
// err is itself.
func jetStreamError(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("the account has no JetStream: enable it for the account of these credentials: %w", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("the server has no JetStream: start nats-server with -js, or put jetstream {} into its configuration: %w", err)
	}
	return err
}

// refusal says what to do about a server that is there and turns us down, or
// that we turn down; nil if err is of another kind.
func refusal(err error) error {
	for _, e := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
		nats.ErrNkeysNotSupported,
	} {
		if errors.Is(err, e) {
			return fmt.Errorf("it refuses the credentials: put user and password into --nats-url, or name a file with --nats-creds: %w", err)
		}
	}
	if errors.Is(err, nats.ErrSecureConnWanted) {
		return fmt.Errorf("it has no TLS: leave --nats-tls-ca out, and write nats:// for tls://: %w", err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("its certificate is not trusted: name the file of its CA with --nats-tls-ca: %w", err)
	}
	return nil
}
