package ingress

import (
	"log/slog"
	"net/http"

	"smg/ingress/body"
)

// inferenceRoutes are the paths whose requests go to workers that policies choose.
func inferenceRoutes() []*route {
	all := []*route{
		{
			path: chatPath, check: body.CheckChat, prompts: body.CountChat,
			text: body.TextChat, partition: body.Partition,
			endpoint: "chat", idPrefix: "chatcmpl-", media: body.MediaChat,
		},
		{
			path: "/v1/completions", check: body.CheckCompletions, prompts: body.CountCompletions,
			text: body.TextCompletions, tokens: body.TokensCompletions, partition: body.Partition,
			endpoint: "completions", idPrefix: "cmpl-",
		},
		{
			path: "/generate", check: body.CheckGenerate, prompts: body.CountGenerate,
			text: body.TextGenerate, tokens: body.TokensGenerate, partition: body.PartitionGenerate,
			endpoint: "generate", idPrefix: "gnt-", plain: true, aloneVLLM: "vLLM has no such route",
		},
		{
			path: "/v1/messages", check: body.CheckMessages, prompts: body.CountOne,
			text: body.TextMessages, partition: body.Partition, endpoint: "messages", idPrefix: "msg_", media: body.MediaMessages,
		},
		{
			path: responsesPath, check: body.CheckResponses, prompts: body.CountOne,
			text: body.TextResponses, partition: body.Partition, endpoint: "responses", idPrefix: "resp-",
		},
		{
			path: "/v1/embeddings", check: body.CheckInput, prompts: body.CountOne,
			text: body.TextEmbeddings, partition: body.Partition, endpoint: "embeddings", idPrefix: "req-", plain: true,
			alone: noKV,
		},
		{
			path: "/v1/classify", check: body.CheckInput, prompts: body.CountOne,
			text: body.TextClassify, partition: body.Partition, endpoint: "classify", idPrefix: "req-", plain: true,
			alone: noKV,
		},
		rerank("/v1/rerank", true), rerank("/rerank", false),
	}
	for _, rt := range all {
		rt.class, rt.post = classAPI, (*exchange).infer
		switch rt.endpoint {
		case "generate", "chat", "completions", "messages", "embeddings", "classify":
			rt.counted = true
		}
	}
	return all
}

// infer has a worker answer.
func (x *exchange) infer(r *http.Request) error {
	err := x.run(x.route, r)
	if x.srv.log.Enabled(&x.ctx, slog.LevelDebug) {
		x.srv.log.LogAttrs(&x.ctx, slog.LevelDebug, "request ended", slog.String("uri", r.URL.Path), slog.String("model", clip(x.query.model)),
			slog.Duration("latency", x.elapsed()), slog.Any("error", err))
	}
	return err
}
