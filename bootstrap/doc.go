// Package bootstrap brings workers into the fleet. It owns the registration job
// (wait until a worker answers, learn what it serves) and the worker record that
// comes of it, with the address at which decode workers will meet a prefill worker.
// How a worker is asked and where records are kept is plugged in ([Prober],
// [Store]). It does not know selection or serving.
package bootstrap
