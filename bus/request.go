package bus

import (
	"errors"

	"github.com/nats-io/nats.go"

	"smg/wire"
)

// Request sends v to whoever answers the service, and has the answer go to
// replies. It waits for nobody: as with [Publish], the error is [ErrDisconnected]
// when there is no connection. A request may be lost, and so may its answer; what
// ties the two together is in the messages.
func Request[Q, A any](c *Conn, service wire.Service[Q, A], v *Q, replies wire.Topic[A]) error {
	return send(c, service.Topic, replies.Subject, v)
}

// SubscribeReplies is [Subscribe] for a topic that answers are sent to. nobody, if
// not nil, is told the subject of each request that nobody was there to hear, "" if
// the server does not say which; it is called like handle, never at the same time.
func SubscribeReplies[A any](c *Conn, t wire.Topic[A], handle func(*A), nobody func(subject string)) (*Subscription, error) {
	return subscribe(c, t.Kind, t.Subject, func(m *nats.Msg, d *drops) {
		if isNobody(m) {
			if nobody != nil {
				nobody(m.Header.Get(aboutSubject))
			}
			return
		}
		v, err := t.Decode(m.Data)
		if err != nil {
			d.bad(err)
			return
		}
		handle(v)
	})
}

// Headers of what a NATS server sends by itself.
const (
	statusHeader = "Status"
	noResponders = "503"
	aboutSubject = "Nats-Subject"
)

// isNobody says whether m is the server's notice that nobody heard a request. A
// message of ours has no headers.
func isNobody(m *nats.Msg) bool {
	return m.Header != nil && len(m.Data) == 0 && m.Header.Get(statusHeader) == noResponders
}

// Answer has handle called with each request to the service, as [Subscribe] does,
// and sends what it returns to who asked, at once; nil sends nothing. An answer
// that cannot be sent is counted as an error of publishing, and lost. A request
// that cannot be decoded is refused if it says what to answer to, and counted as
// dropped; so is one that says nowhere where to answer, of which handle is not
// told.
func Answer[Q, A any](c *Conn, service wire.Service[Q, A], handle func(*Q) *A) (*Subscription, error) {
	answers := wire.Topic[A]{Kind: service.Kind, Append: service.AppendAnswer}
	return subscribe(c, service.Kind, service.Subject, func(m *nats.Msg, d *drops) {
		if m.Reply == "" {
			d.bad(errNowhere)
			return
		}
		var answer *A
		q, err := service.Decode(m.Data)
		if err == nil {
			answer = handle(q)
		} else {
			d.bad(err)
			answer = service.Refuse(m.Data, err)
		}
		if answer == nil {
			return
		}
		to := answers
		to.Subject = m.Reply
		if err := send(c, to, "", answer); err != nil {
			d.unanswered(err)
		}
	})
}

var errNowhere = errors.New("the request says nowhere where to answer")
