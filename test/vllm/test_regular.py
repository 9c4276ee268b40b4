"""vLLM engines that each answer whole requests, behind `smg launch`."""

from __future__ import annotations

import threading

import pytest

import procs
from engines import MODEL, SLOTS

QUESTION = [{"role": "user", "content": "Say something."}]
EXACT = {"model": MODEL, "messages": QUESTION, "temperature": 0}
# The model never ends by itself: this takes minutes if nobody stops it.
ENDLESS = {**EXACT, "max_tokens": 30_000, "stream": True}


def text(client, **kw) -> str:
    return client.chat.completions.create(**EXACT, **kw).choices[0].message.content


def begun(client):
    """Start an endless answer and return it once it has said something."""
    stream = client.chat.completions.create(**ENDLESS)
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            return stream
    raise AssertionError("the answer ended")


@pytest.fixture
def gateway(fleet, start_gateway):
    return start_gateway("--worker-urls", fleet.plain.url)


def test_what_the_gateway_finds_out(gateway):
    _, body = procs.get(gateway.url + "/workers")
    assert b'"runtime_type":"vllm"' in body
    assert f'"model_id":"{MODEL}"'.encode() in body


def test_chat_is_that_of_the_engine(gateway, fleet, new_client):
    want = text(new_client(fleet.plain), max_tokens=32)
    client = new_client(gateway)
    assert len(want) == 32, "a token is a letter"
    assert MODEL in [m.id for m in client.models.list()]
    assert text(client, max_tokens=32) == want
    got, usage = [], None
    for chunk in client.chat.completions.create(
        **EXACT, max_tokens=32, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        got += [c.delta.content for c in chunk.choices if c.delta.content]
    assert "".join(got) == want
    assert len(got) > 1, "the answer came in one piece"
    assert usage.completion_tokens == 32


def test_the_engines_error_is_passed_on(gateway, new_client):
    import openai

    with pytest.raises(openai.BadRequestError) as caught:
        text(new_client(gateway), max_tokens=1_000_000)
    assert "max_model_len" in str(caught.value.body)


def test_who_leaves_frees_a_slot(gateway, fleet, new_client):
    client, engine = new_client(gateway), fleet.plain
    procs.eventually("engine idle", engine.idle, 60)
    streams = [begun(client) for _ in range(SLOTS)]
    late: list = []
    waiting = threading.Thread(target=lambda: late.append(begun(client)))
    waiting.start()
    procs.eventually("one request waits", lambda: engine.waiting() == 1, 30)
    assert engine.running() == SLOTS
    streams.pop().close()
    waiting.join(60)
    assert late, "nobody got the slot"
    for stream in [*streams, *late]:
        stream.close()
    procs.eventually("engine idle after all have left", engine.idle, 20)


def test_who_leaves_before_the_first_byte_frees_a_slot(gateway, fleet, new_client):
    import openai

    procs.eventually("engine idle", fleet.plain.idle, 60)
    with pytest.raises(openai.APITimeoutError):
        new_client(gateway).with_options(timeout=1).chat.completions.create(**{**ENDLESS, "stream": False})
    procs.eventually("engine idle after its client left", fleet.plain.idle, 20)


def test_least_load_goes_by_the_engines_own_metrics(fleet, start_gateway, new_client):
    """The load comes from elsewhere: only /metrics of the engine tells of it."""
    pair = [fleet.plain, fleet.consumer]
    gateway = start_gateway("--policy", "least_load", "--worker-urls", *(e.url for e in pair))
    client = new_client(gateway)

    def reported(engine) -> float:
        got = procs.metrics(gateway.metrics_url)
        return sum(v for k, v in got.items() if k.startswith("smg_engine_waiting_requests") and engine.url in k)

    for busy, free in (pair, reversed(pair)):
        procs.eventually("both are idle", lambda: all(e.idle() for e in pair), 60)
        procs.eventually("the gateway knows it", lambda: sum(map(reported, pair)) == 0, 30)
        direct = new_client(busy)
        streams = [begun(direct) for _ in range(SLOTS)]
        queued = [threading.Thread(target=lambda: streams.append(begun(direct))) for _ in range(SLOTS)]
        for t in queued:
            t.start()
        procs.eventually("the gateway knows of the queue", lambda: reported(busy) >= SLOTS - 1, 60)
        for _ in range(4):
            raw = client.chat.completions.with_raw_response.create(**EXACT, max_tokens=2)
            assert raw.headers["x-smg-routed-worker-id"] == free.url
        for stream in streams[:SLOTS]:
            stream.close()
        for t in queued:
            t.join()
        for stream in streams[SLOTS:]:
            stream.close()
