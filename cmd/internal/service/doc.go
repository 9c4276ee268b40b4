// Package service is what all processes that run services have in common: they bind
// listeners, or inherit them from their parent, join the message bus, show a page of
// metrics, and start and stop what they run in order. It does not know what the
// services do, and links neither the built-in NATS server nor the API.
package service
