// Package commonpb is the messages that the gRPC protocols of SGLang and vLLM share,
// generated from common.proto.
package commonpb

//go:generate make -C ../../.. proto
