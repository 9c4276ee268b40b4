package ingress

import (
	"net/http"

	"smg/ingress/body"
	"smg/worker"
)

// noKV is why a request cannot be shared that decodes nothing.
const noKV = "its answer is computed with the prompt, which leaves nothing to hand over"

// apart refuses a request of which engines do all the work or none, in a fleet whose
// workers do a part of it each. Nobody is asked for it.
func (x *exchange) apart(rt *route, r *http.Request) error {
	if x.mode == Regular || rt.alone == "" || x.srv.cfg.Multi { // there the model decides, once it is known
		return nil
	}
	forsake(x.w, r)
	return unshared(rt, rt.alone)
}

// together refuses a request that the engines which were picked cannot share.
func (x *exchange) together(rt *route, p *Plan) error {
	if rt.aloneVLLM == "" || p.runtime() != worker.VLLM {
		return nil
	}
	return unshared(rt, rt.aloneVLLM)
}

func unshared(rt *route, why string) *problem {
	return gatewayProblem(http.StatusNotImplemented, "pd_not_supported",
		"POST %s cannot be shared by prefill and decode workers: %s; send it to a gateway whose workers are regular", rt.path, why)
}

// rerank is a route that ranks documents. Engines have only one of the two.
func rerank(path string, plain bool) *route {
	return &route{
		path: path, upstream: "/v1/rerank", check: body.CheckRerank, prompts: body.CountOne,
		text: body.TextRerank, partition: body.Partition, endpoint: "rerank", plain: plain,
		aloneVLLM: "vLLM hands nothing over for it",
	}
}
