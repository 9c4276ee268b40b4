package tokenreply

// dialect is in what the answers of engines differ, in the routes that they share.
type dialect struct {
	// mergeLast says the last text and why it ended in one event.
	mergeLast bool
	// tellsEOS has an answer that ended naturally say at which token.
	tellsEOS bool

	// Pieces of JSON.
	role       string // before the content of an event
	deltaTail  string // behind it
	message    string // behind the content of a whole message
	stopKey    string // of what an answer stopped at
	chunkTail  string // behind the choices of an event
	answerTail string // behind the usage of a whole answer
	usageTail  string // at the end of a usage
}

func dialectOf(e Engine) dialect {
	if e == VLLM {
		return dialect{
			mergeLast:  true,
			message:    `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning_content":null`,
			stopKey:    "stop_reason",
			answerTail: `,"prompt_logprobs":null,"kv_transfer_params":null`,
		}
	}
	return dialect{
		tellsEOS:   true,
		role:       `"role":null,`,
		deltaTail:  `,"reasoning_content":null,"tool_calls":null`,
		message:    `,"reasoning_content":null,"tool_calls":null`,
		stopKey:    "matched_stop",
		chunkTail:  `,"usage":null`,
		answerTail: `,"metadata":{"weight_version":"default"}`,
		usageTail:  `,"reasoning_tokens":0`,
	}
}
