package simhttp

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"smg/sim/simtext"
)

// dialect holds everything in which the engines differ on shared routes.
type dialect struct {
	ownedBy   string
	routes    func(s *Server, mux *http.ServeMux)
	errorBody func(*apiError) any
	// overflow words the refusal of prompt + output > context.
	overflow func(context, prompt, output int) string
	metrics  func(text *metricsText, r report)
	// open tells the paths that need no API key.
	open func(path string) bool
	// checkModel refuses model names other than the served one.
	checkModel bool
	// headersFirst sends the headers of a stream before its first event is
	// known; otherwise they come together.
	headersFirst bool
	// mergeLast puts the finish reason into the event of the last token;
	// otherwise an event of its own follows.
	mergeLast bool

	// Fragments of JSON, see render.go.
	role       string // before the content of a delta that has no role
	deltaTail  string // after the content of a delta
	message    string // after the content of a whole message
	stopKey    string
	chunkTail  string // after the choices of a chunk
	answerTail string // after the usage of a whole answer
	usageTail  string // inside the usage
	// kvParams adds kv_transfer_params to whole answers.
	kvParams bool
	// streamError is the event that ends a stream in place of an answer.
	streamError func(*apiError) any
	// stop renders what an answer stopped at.
	stop func(a simtext.Answer) string
}

func dialectOf(k Kind) dialect {
	if k == VLLM {
		return vllmDialect()
	}
	return sglangDialect()
}

func sglangDialect() dialect {
	return dialect{
		ownedBy:   "sglang",
		routes:    sglangRoutes,
		errorBody: sglangError,
		overflow: func(context, prompt, output int) string {
			if prompt >= context {
				return fmt.Sprintf("The input (%d tokens) is longer than the model's context length (%d tokens).", prompt, context)
			}
			return fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. "+
				"You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. "+
				"Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
				context, prompt+output, prompt, output)
		},
		metrics: sglangMetrics,
		open: func(path string) bool {
			return strings.HasPrefix(path, "/health") || strings.HasPrefix(path, "/metrics")
		},
		role:       `"role":null,`,
		deltaTail:  `,"reasoning_content":null,"tool_calls":null`,
		message:    `,"reasoning_content":null,"tool_calls":null`,
		stopKey:    "matched_stop",
		chunkTail:  `,"usage":null`,
		answerTail: `,"metadata":{"weight_version":"default"}`,
		usageTail:  `,"reasoning_tokens":0`,
		streamError: func(e *apiError) any {
			return map[string]any{"error": sglangError(e)}
		},
		stop: func(a simtext.Answer) string {
			switch {
			case a.StopString != "":
				return string(appendString(nil, a.StopString))
			case a.Finish == simtext.FinishStop:
				return strconv.Itoa(int(a.StopToken))
			default:
				return "null"
			}
		},
	}
}

func vllmDialect() dialect {
	return dialect{
		ownedBy:   "vllm",
		routes:    vllmRoutes,
		errorBody: vllmError,
		overflow: func(context, prompt, output int) string {
			return fmt.Sprintf("This model's maximum context length is %d tokens. "+
				"However, you requested %d tokens (%d in the messages, %d in the completion). "+
				"Please reduce the length of the messages or completion.",
				context, prompt+output, prompt, output)
		},
		metrics:      vllmMetrics,
		open:         vllmOpen,
		checkModel:   true,
		headersFirst: true,
		mergeLast:    true,
		message:      `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning_content":null`,
		stopKey:      "stop_reason",
		answerTail:   `,"prompt_logprobs":null`,
		kvParams:     true,
		streamError:  vllmError,
		stop: func(a simtext.Answer) string {
			switch {
			case a.StopString != "":
				return string(appendString(nil, a.StopString))
			case a.Finish == simtext.FinishStop && a.StopToken != simtext.EOS:
				return strconv.Itoa(int(a.StopToken))
			default:
				return "null"
			}
		},
	}
}
