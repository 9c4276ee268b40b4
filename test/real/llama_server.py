"""llama-server from the xllamacpp package, with the command line of llama.cpp's own.

The package holds llama.cpp's HTTP server as a Python extension, but no program.
This is that program: the part of llama-server's command line that one GGUF model
on a CPU needs. Everything after the start (routes, batching, streaming, what
happens when a client leaves) is llama.cpp's C++ code.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line; names, short forms and defaults are llama-server's."""
    p = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    p.add_argument("-m", "--model", required=True, metavar="FILE", help="the model, a GGUF file")
    p.add_argument("-a", "--alias", metavar="NAME", help="name of the model in the API")
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=8080)
    p.add_argument("--api-key", metavar="KEY")
    p.add_argument("--metrics", action="store_true", help="serve GET /metrics")
    p.add_argument("--slots", action=argparse.BooleanOptionalAction, default=True, help="serve GET /slots")
    p.add_argument("-c", "--ctx-size", type=int, default=0, metavar="N", help="tokens of context, over all slots")
    p.add_argument("-np", "--parallel", type=int, default=1, metavar="N", help="slots")
    p.add_argument("-t", "--threads", type=int, default=-1, metavar="N")
    p.add_argument("-tb", "--threads-batch", type=int, metavar="N", help="default: as --threads")
    p.add_argument("--threads-http", type=int, default=-1, metavar="N")
    p.add_argument("-n", "--predict", "--n-predict", type=int, default=-1, metavar="N")
    p.add_argument("-b", "--batch-size", type=int, default=2048, metavar="N")
    p.add_argument("-ub", "--ubatch-size", type=int, default=512, metavar="N")
    p.add_argument("--cache-prompt", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--warmup", action=argparse.BooleanOptionalAction, default=True)
    return p.parse_args(argv)


def params(args: argparse.Namespace):
    """Turn the command line into the parameters of the native server."""
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path = args.model
    if args.alias:
        p.model_alias = {args.alias}
    p.hostnames = [args.host]
    p.port = args.port
    if args.api_key:
        p.api_keys = [args.api_key]
    p.endpoint_metrics = args.metrics
    p.endpoint_slots = args.slots
    p.ui = False
    p.n_ctx = args.ctx_size
    p.n_parallel = args.parallel
    p.cpuparams.n_threads = args.threads
    p.cpuparams_batch.n_threads = args.threads if args.threads_batch is None else args.threads_batch
    p.n_threads_http = args.threads_http
    p.n_predict = args.predict
    p.n_batch = args.batch_size
    p.n_ubatch = args.ubatch_size
    p.cache_prompt = args.cache_prompt
    p.warmup = args.warmup
    return p


def main(argv: list[str]) -> int:
    # The constructor below holds the interpreter lock while it loads the model, so a
    # handler written in Python could not run then: until it returns, signals kill.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    args = parse(argv)
    if not os.path.isfile(args.model):
        print(f"error: no such model file: {args.model}", file=sys.stderr)
        return 1

    import xllamacpp

    try:
        # /health answers 503 from here on and 200 once the model is loaded.
        server = xllamacpp.Server(params(args))
    except RuntimeError as err:
        print(f"error: {err}", file=sys.stderr)
        return 1

    # Tearing the native server down waits for its open streams, up to 30 s. There is
    # nothing to save: leave at once and let the system close the connections.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print(f"llama-server: listening on {server.listening_address}", file=sys.stderr, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
