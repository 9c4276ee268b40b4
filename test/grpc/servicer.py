"""The published servicer of vLLM, over an engine that only counts.

It imports much of vLLM, of which a served prompt needs little: names of vllm, torch and
transformers are stood in for here. The servicer itself is the published one.
"""

from __future__ import annotations

import asyncio
import importlib.abc
import importlib.machinery
import logging
import sys
import time
import types

STANDS_FOR = ("vllm", "torch", "transformers")


class _Any(type):
    """A class that has every attribute."""

    def __getattr__(cls, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class _Module(types.ModuleType):
    """A module that has every name: exceptions where they are called so, classes that
    keep what they are made of, else."""

    __version__ = "0"

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "init_logger":
            return logging.getLogger
        if name.endswith(("Error", "Exception")):
            made = type(name, (Exception,), {})
        else:
            made = _Any(name, (), {"__init__": lambda self, *_, **fields: self.__dict__.update(fields)})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in STANDS_FOR:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


class Engine:
    """Answers with 1000, 1001, … up to max_tokens. A prompt that begins with 7 is refused;
    one that begins with 8 is never finished."""

    errored = False
    vllm_config = None
    model_config = None

    def __init__(self):
        self.aborted: list[str] = []
        self.cut: list[str] = []
        self.seen: list = []
        self.renderer = types.SimpleNamespace(process_for_engine=lambda prompt, arrival_time: prompt)

    async def generate(self, *, prompt, sampling_params, request_id, **_):
        p, ids = sampling_params, (prompt["prompt_token_ids"] if isinstance(prompt, dict) else prompt.prompt_token_ids)
        self.seen.append(p)
        if ids[0] == 7:
            raise ValueError("this prompt is refused")
        stream = str(p.output_kind).endswith("DELTA")
        try:
            for i in range(p.max_tokens):
                last = i == p.max_tokens - 1
                tokens = [1000 + i] if stream else [1000 + k for k in range(p.max_tokens)]
                if stream or last:
                    yield types.SimpleNamespace(
                        prompt_token_ids=ids, num_cached_tokens=2, prompt_logprobs=None, finished=last, kv_transfer_params=None,
                        outputs=[types.SimpleNamespace(index=0, token_ids=tokens, logprobs=None, finish_reason="length" if last else None, stop_reason=None)],
                    )
                if ids[0] == 8 and i == 1:
                    await asyncio.sleep(3600)
        except (asyncio.CancelledError, GeneratorExit):
            self.cut.append(request_id)
            raise

    async def abort(self, ids):
        self.aborted.extend([ids] if isinstance(ids, str) else ids)


async def serve(started) -> None:
    """Serves until it is cancelled, and tells started of the port and the engine."""
    import grpc
    from smg_grpc_proto import vllm_engine_pb2_grpc
    from smg_grpc_servicer.vllm.servicer import VllmEngineServicer

    engine = Engine()
    server = grpc.aio.server()
    vllm_engine_pb2_grpc.add_VllmEngineServicer_to_server(VllmEngineServicer(engine, time.time()), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    started(port, engine)
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop(None)


def install() -> None:
    """Stands in for what is not installed."""
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.append(_Finder())
