"""Our client against the published servicer of vLLM."""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import threading

import pytest
import servicer
from conftest import ROOT


@pytest.fixture
def served():
    servicer.install()
    told, loops = queue.Queue(), queue.Queue()

    def run():
        loop = asyncio.new_event_loop()
        task = loop.create_task(servicer.serve(lambda port, engine: told.put((port, engine))))
        loops.put((loop, task))
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except BaseException as fault:  # for the test to see
            told.put((0, fault))
        finally:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    loop, task = loops.get()
    port, engine = told.get(timeout=30)
    if port == 0:
        thread.join()
        raise engine
    yield port, engine
    loop.call_soon_threadsafe(task.cancel)
    thread.join()


def test_our_client(served):
    port, engine = served
    env = {**os.environ, "SMG_TEST_VLLM_SERVICER": f"grpc://127.0.0.1:{port}"}
    command = ["go", "test", "-count=1", "-v", "-run", "^TestPublishedServicer$", "./engine/rpc"]
    out = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stdout + out.stderr
    assert "--- PASS: TestPublishedServicer" in out.stdout, out.stdout
    assert engine.aborted == ["left"]
    assert engine.cut == ["left"]
    default = engine.seen[0]
    assert (default.temperature, default.top_p, default.top_k, default.repetition_penalty, default.n) == (1, 1, 0, 1, 1)
    assert (default.skip_special_tokens, default.spaces_between_special_tokens, default.detokenize) == (True, True, False)
