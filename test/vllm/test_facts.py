"""What smg takes for granted of vLLM, asked of the engines themselves.

A new version of vLLM may answer differently: then docs/engines.md and what smg makes
of it have to be looked at.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request

import procs
from engines import LEASE, MODEL, Engine

KEEP = {"do_remote_decode": True, "do_remote_prefill": False}


def post(engine: Engine, path: str, body: dict, **headers: str) -> tuple[int, dict]:
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    try:
        with urllib.request.urlopen(urllib.request.Request(engine.url + path, data, headers), timeout=120) as r:
            return r.status, json.loads(r.read() or b"{}")
    except urllib.error.HTTPError as err:
        return err.code, json.loads(err.read() or b"{}")


def complete(engine: Engine, prompt, request_id: str = "", **kw) -> tuple[int, dict]:
    body = {"model": MODEL, "prompt": prompt, "temperature": 0, "max_tokens": 8, **kw}
    return post(engine, "/v1/completions", body, **({"X-Request-Id": request_id} if request_id else {}))


def texts(answer: dict) -> list[str]:
    return [c["text"] for c in answer["choices"]]


def test_without_a_connector_the_tag_is_ignored(fleet, prompt):
    text = prompt()
    want = texts(complete(fleet.plain, text)[1])
    elsewhere = {"do_remote_prefill": True, "remote_engine_id": "x", "remote_block_ids": [[1]], "remote_port": 1}
    for tag in (KEEP, elsewhere):
        status, got = complete(fleet.plain, text, kv_transfer_params=tag)
        assert (status, texts(got), got["kv_transfer_params"]) == (200, want, None)


def test_a_running_request_id_is_taken_again(fleet, prompt):
    """Earlier versions refused it; ids of this one are made different inside."""
    body = {"model": MODEL, "prompt": prompt(), "temperature": 0, "max_tokens": 1500, "ignore_eos": True}
    got: list = []
    name = f"twice-{time.time_ns()}"

    def ask() -> None:
        got.append(post(fleet.consumer, "/v1/completions", body, **{"X-Request-Id": name}))

    both = [threading.Thread(target=ask) for _ in range(2)]
    for t in both:
        t.start()
    procs.eventually("both run", lambda: fleet.consumer.running() == 2, 30)
    for t in both:
        t.join()
    assert [status for status, _ in got] == [200, 200]
    assert got[0][1]["id"] == got[1][1]["id"] == f"cmpl-{name}"
    assert texts(got[0][1]) == texts(got[1][1])


def test_prefill_answers_for_the_first_prompt_of_a_batch(fleet, prompt):
    procs.eventually("prefill idle", fleet.producer.idle, 60)
    short, long = prompt()[:200], prompt()
    _, alone = complete(fleet.producer, short, max_tokens=1, kv_transfer_params=KEEP)
    one = fleet.producer.blocks()
    status, batch = complete(fleet.producer, [short, long], max_tokens=1, kv_transfer_params=KEEP)
    assert status == 200
    assert batch["kv_transfer_params"]["remote_num_tokens"] == len(short)
    assert len(batch["kv_transfer_params"]["remote_block_ids"][0]) == one
    assert fleet.producer.blocks() > 2 * one, "the second prompt's KV is kept too"
    procs.eventually("its lease ends", fleet.producer.idle, 3 * LEASE)


def test_an_abort_does_not_release_what_prefill_keeps(fleet, prompt):
    """Neither route does, not even the one that answers 200: the lease does."""
    procs.eventually("prefill idle", fleet.producer.idle, 60)
    name = f"kept-{time.time_ns()}"
    _, answer = complete(fleet.producer, prompt(), name, max_tokens=1, kv_transfer_params=KEEP)
    assert answer["id"] == f"cmpl-{name}"
    ids = [name, answer["id"], f"{answer['id']}-0", answer["kv_transfer_params"]["remote_request_id"]]
    held = fleet.producer.blocks()
    assert held > 0
    got = {
        (e, path): post(engine, path, {"request_ids": ids})[0]
        for e, engine in (("default", fleet.plain), ("--enable-scale-out", fleet.producer))
        for path in ("/abort_requests", "/inference/v1/abort_requests")
    }
    assert got == {
        ("default", "/abort_requests"): 404,
        ("default", "/inference/v1/abort_requests"): 403,
        ("--enable-scale-out", "/abort_requests"): 404,
        ("--enable-scale-out", "/inference/v1/abort_requests"): 200,
    }
    complete(fleet.producer, "x", max_tokens=1)  # the scheduler has looked at it since
    assert fleet.producer.blocks() == held
    procs.eventually("its lease ends", fleet.producer.idle, 3 * LEASE)
