package instant

import (
	"encoding/json"
	"fmt"
	"strings"
)

// answers are complete responses, ready to be written.
type answers struct {
	chat, completion, generate response
	routes                     map[string][]byte // GET, by path
	notFound                   []byte
	badRequest                 []byte
}

// response is one answer, whole and as a stream.
type response struct {
	whole  []byte
	stream [][]byte // the head, then one or more events a piece, then the end
}

const created = 1_700_000_000

func render(cfg Config) answers {
	model := quote(cfg.Model)
	text := strings.TrimSpace(strings.Repeat(" token", cfg.Tokens))
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":16,"total_tokens":%d,"completion_tokens":%d}`, 16+cfg.Tokens, cfg.Tokens)

	chatHead := fmt.Sprintf(`{"id":"chatcmpl-instant","object":"chat.completion.chunk","created":%d,"model":%s,"choices":[{"index":0,`, created, model)
	textHead := fmt.Sprintf(`{"id":"cmpl-instant","object":"text_completion","created":%d,"model":%s,"choices":[{"index":0,`, created, model)
	meta := fmt.Sprintf(`"meta_info":{"id":"instant","prompt_tokens":16,"completion_tokens":%d,"cached_tokens":0,"finish_reason":`, cfg.Tokens)

	a := answers{
		notFound:   head(404, "application/json", `{"detail":"Not Found"}`),
		badRequest: head(400, "application/json", `{"detail":"Bad Request"}`),
		routes: map[string][]byte{
			"/health":          head(200, "text/plain", ""),
			"/health_generate": head(200, "text/plain", ""),
			"/metrics":         head(200, "text/plain; version=0.0.4", ""),
			"/v1/models": head(200, "application/json", fmt.Sprintf(
				`{"object":"list","data":[{"id":%s,"object":"model","created":%d,"owned_by":%q}]}`, model, created, cfg.OwnedBy)),
		},
	}
	info := fmt.Sprintf(`{"model_path":%s,"served_model_name":%s,"dp_size":1,"tp_size":1,"is_generation":true,"version":"instant"}`, model, model)
	paths := []string{"/version"}
	if cfg.OwnedBy == "sglang" {
		paths = []string{"/server_info", "/get_server_info", "/model_info", "/get_model_info"}
		a.routes["/v1/loads"] = head(200, "application/json",
			`{"dp_rank_count":1,"loads":[{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":0,"num_waiting_uncached_tokens":0,"num_used_tokens":0,"max_total_num_tokens":131072,"token_usage":0,"gen_throughput":0,"max_running_requests":256}]}`)
	}
	for _, path := range paths {
		a.routes[path] = head(200, "application/json", info)
	}

	a.chat.whole = head(200, "application/json", fmt.Sprintf(
		`{"id":"chatcmpl-instant","object":"chat.completion","created":%d,"model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s},"logprobs":null,"finish_reason":"stop"}],%s}`,
		created, model, quote(text), usage))
	a.completion.whole = head(200, "application/json", textHead+`"text":`+quote(text)+`,"logprobs":null,"finish_reason":"stop"}],`+usage+`}`)
	a.generate.whole = head(200, "application/json", `{"text":`+quote(text)+`,`+meta+`{"type":"stop","matched":2}}}`)

	a.chat.stream = cfg.stream(func(word, finish string) string {
		return chatHead + `"delta":{"content":` + quote(word) + `},"logprobs":null,"finish_reason":` + finish + `}]}`
	})
	a.completion.stream = cfg.stream(func(word, finish string) string {
		return textHead + `"text":` + quote(word) + `,"logprobs":null,"finish_reason":` + finish + `}]}`
	})
	// Increments, as with SGLang's --incremental-streaming-output: repeating
	// the text so far would make long streams quadratic.
	a.generate.stream = cfg.stream(func(word, finish string) string {
		if finish != "null" {
			finish = `{"type":"stop","matched":2}`
		}
		return `{"text":` + quote(word) + `,` + meta + finish + `}}`
	})
	return a
}

// stream renders the pieces of an event stream in chunked encoding.
func (c Config) stream(event func(word, finish string) string) [][]byte {
	pieces := [][]byte{[]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")}
	var piece []byte
	for i := range c.Tokens {
		word, finish := " token", "null"
		if i == 0 {
			word = "token"
		}
		if i == c.Tokens-1 {
			finish = `"stop"`
		}
		piece = chunk(piece, "data: "+event(word, finish)+"\n\n")
		if (i+1)%c.EventsPerWrite == 0 || i == c.Tokens-1 {
			pieces = append(pieces, piece)
			piece = nil
		}
	}
	// The end leaves with the last events.
	last := chunk(pieces[len(pieces)-1], "data: [DONE]\n\n")
	pieces[len(pieces)-1] = append(last, "0\r\n\r\n"...)
	return pieces
}

func chunk(dst []byte, data string) []byte {
	return fmt.Appendf(dst, "%x\r\n%s\r\n", len(data), data)
}

func head(status int, contentType, body string) []byte {
	text := map[int]string{200: "OK", 400: "Bad Request", 404: "Not Found"}[status]
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, text, contentType, len(body), body)
}

// quote renders a JSON string; any string can be.
func quote(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(raw)
}
