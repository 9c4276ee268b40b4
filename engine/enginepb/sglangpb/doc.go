// Package sglangpb is the messages and the service of SGLang's scheduler, generated from
// sglang.proto. Package engine/rpc speaks it for everybody else.
package sglangpb

//go:generate make -C ../../.. proto
