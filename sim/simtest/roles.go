package simtest

import (
	"testing"

	"smg/sim/simhttp"
)

// PD are engines that share the work of requests.
type PD struct {
	Encode  []*Engine // of StartEPD and StartSGLangEPD only
	Prefill []*Engine
	Decode  []*Engine
}

// All returns every engine.
func (p *PD) All() []*Engine {
	return append(append(append([]*Engine(nil), p.Encode...), p.Prefill...), p.Decode...)
}

// StartPD runs prefill and decode engines like cfg, of cfg.Kind, until the test
// ends. An SGLang decode engine takes the port of the first prefill engine for
// requests that name none.
func StartPD(t testing.TB, prefills, decodes int, cfg simhttp.Config) *PD {
	t.Helper()
	prefill, decode := cfg, cfg
	if cfg.Kind == simhttp.SGLang {
		prefill.Disagg.Mode, decode.Disagg.Mode = simhttp.Prefill, simhttp.Decode
	} else {
		prefill.Disagg.KVRole, decode.Disagg.KVRole = simhttp.KVProducer, simhttp.KVConsumer
	}
	p := &PD{Prefill: StartN(t, prefills, prefill)}
	if cfg.Kind == simhttp.SGLang && prefills > 0 {
		decode.Disagg.BootstrapPort = p.Prefill[0].PeerPort
	}
	p.Decode = StartN(t, decodes, decode)
	return p
}

// StartEPD runs vLLM encoders, prefill engines that look for embeddings at all
// of them, and decode engines, like cfg, until the test ends.
func StartEPD(t testing.TB, encoders, prefills, decodes int, cfg simhttp.Config) *PD {
	t.Helper()
	cfg.Kind = simhttp.VLLM
	encoder := cfg
	encoder.Disagg.ECRole = simhttp.ECProducer
	list := StartN(t, encoders, encoder)
	cfg.Disagg.ECRole = simhttp.ECConsumer
	cfg.Disagg.ECPeers = nil
	for _, e := range list {
		cfg.Disagg.ECPeers = append(cfg.Disagg.ECPeers, e.URL)
	}
	p := StartPD(t, prefills, decodes, cfg)
	p.Encode = list
	return p
}

// StartSGLangEPD runs SGLang encoders, prefill engines that ask them for embeddings,
// and decode engines, like cfg, until the test ends.
func StartSGLangEPD(t testing.TB, encoders, prefills, decodes int, cfg simhttp.Config) *PD {
	t.Helper()
	cfg.Kind = simhttp.SGLang
	encoder, prefill, decode := cfg, cfg, cfg
	encoder.Disagg.EncoderOnly = true
	p := &PD{Encode: StartN(t, encoders, encoder)}
	prefill.Disagg.Mode, prefill.Disagg.LanguageOnly = simhttp.Prefill, true
	for _, e := range p.Encode {
		prefill.Disagg.EncoderURLs = append(prefill.Disagg.EncoderURLs, e.URL)
	}
	p.Prefill = StartN(t, prefills, prefill)
	decode.Disagg.Mode, decode.Disagg.BootstrapPort = simhttp.Decode, p.Prefill[0].PeerPort
	p.Decode = StartN(t, decodes, decode)
	return p
}
