// Package prepare makes of a request's body what engines over gRPC take: token ids for
// each prompt, and how to go on from them. Chats go through the model's template; what
// such engines cannot do (tools, media and others) is refused in words that name HTTP as
// the way.
//
// The package is pure: a body, a route and a model in, a [Request] or a [Fault] out. It
// does not know plans, workers or connections; of package rpc it has the values only.
package prepare
