package launcher

import (
	"strconv"

	"smg/worker"
)

// encoderURLsFlag takes every argument up to the next flag.
const encoderURLsFlag = "--encoder-urls"

// sglangSharing is how SGLang's engines share requests: decode goes to prefill's
// bootstrap port, and prefill asks the encoders itself.
func sglangSharing() *sharing {
	return &sharing{
		owned: []string{"--disaggregation-mode", "--disaggregation-bootstrap-port", "--encoder-only", "--language-only", encoderURLsFlag},
		meets: isPrefill,
		flags: func(p Place) []string {
			if p.Role == worker.Encode {
				return []string{"--encoder-only"}
			}
			args := []string{"--disaggregation-mode", p.Role.String()}
			if p.BootstrapPort != 0 {
				args = append(args, "--disaggregation-bootstrap-port", strconv.Itoa(p.BootstrapPort))
			}
			if isPrefill(p) && len(p.Encoders) > 0 {
				args = append(append(args, "--language-only", encoderURLsFlag), p.Encoders...)
			}
			return args
		},
	}
}
