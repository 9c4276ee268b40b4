// Package vllmpb is the messages and the service of vLLM's engine, generated from
// vllm.proto. Package engine/rpc speaks it for everybody else.
package vllmpb

//go:generate make -C ../../.. proto
