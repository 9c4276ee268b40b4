package ingress

import (
	"net/http"

	"smg/ingress/body"
)

// endpointMessages is the route of Anthropic's API.
const endpointMessages = "messages"

// inferenceRoutes are the paths whose requests go to workers that policies choose.
func inferenceRoutes() []*route {
	all := []*route{
		{
			path: chatPath, check: body.CheckChat, prompts: body.CountChat,
			text: body.TextChat, partition: body.Partition,
			endpoint: "chat", media: body.MediaChat,
		},
		{
			path: "/v1/completions", check: body.CheckCompletions, prompts: body.CountCompletions,
			text: body.TextCompletions, tokens: body.TokensCompletions, partition: body.Partition,
			endpoint: "completions",
		},
		{
			path: "/generate", check: body.CheckGenerate, prompts: body.CountGenerate,
			text: body.TextGenerate, tokens: body.TokensGenerate, partition: body.PartitionGenerate,
			endpoint: "generate", plain: true, aloneVLLM: "vLLM has no such route",
		},
		{
			path: messagesPath, check: body.CheckMessages, prompts: body.CountOne,
			text: body.TextMessages, partition: body.Partition, endpoint: endpointMessages, media: body.MediaMessages,
		},
		{
			path: responsesPath, check: body.CheckResponses, prompts: body.CountOne,
			text: body.TextResponses, partition: body.Partition, endpoint: "responses",
		},
		{
			path: "/v1/embeddings", check: body.CheckInput, prompts: body.CountOne,
			text: body.TextEmbeddings, partition: body.Partition, endpoint: "embeddings", plain: true,
			alone: noKV,
		},
		{
			path: "/v1/classify", check: body.CheckInput, prompts: body.CountOne,
			text: body.TextClassify, partition: body.Partition, endpoint: "classify", plain: true,
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
	x.routed = true
	return x.run(x.route, r)
}
