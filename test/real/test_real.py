"""The official OpenAI client against a real model behind `smg serve`."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

import procs
from conftest import MODEL, REPORT, new_client

QUESTION = [{"role": "user", "content": "Say hello in one sentence."}]
# Greedy decoding, and no reuse of an earlier prompt: a prompt computed in other
# pieces gives other rounding, and with it now and then another token.
EXACT = {"temperature": 0, "seed": 1, "extra_body": {"cache_prompt": False}}
# An answer that would take a minute or so if nobody stopped it.
ENDLESS = {"max_tokens": 1500, "temperature": 0, "extra_body": {"ignore_eos": True}}
ENDLESS_TOKENS = 1500


def busy(engines: list[procs.Engine]) -> float:
    return sum(e.processing() for e in engines)


def generated(engines: list[procs.Engine]) -> float:
    return sum(e.generated() for e in engines)


def streamed(client: openai.OpenAI, **kw) -> str:
    with client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True, **kw) as stream:
        return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


def test_models(client):
    assert MODEL in [m.id for m in client.models.list()]


def test_chat(client):
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=48, **EXACT)
    choice = answer.choices[0]
    assert choice.message.role == "assistant"
    assert choice.message.content.strip()
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage.prompt_tokens > 0
    assert answer.usage.completion_tokens > 0


def test_chat_streamed(client):
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=48, **EXACT)
    start = time.monotonic()
    first = 0.0
    text, reasons, usage, pieces = "", [], None, 0
    with client.chat.completions.create(
        model=MODEL,
        messages=QUESTION,
        max_tokens=48,
        stream=True,
        stream_options={"include_usage": True},
        **EXACT,
    ) as stream:
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                if choice.delta.content:
                    first = first or time.monotonic()
                    pieces += 1
                    text += choice.delta.content
                if choice.finish_reason:
                    reasons.append(choice.finish_reason)
    assert text == whole.choices[0].message.content
    assert reasons == [whole.choices[0].finish_reason]
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert pieces > 1, "the answer came in one piece"
    took = time.monotonic() - first
    REPORT.append(f"first token after {first - start:.2f} s, then {(pieces - 1) / took:.0f} tokens/s on one thread")


def test_completion(client):
    answer = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=8, **EXACT)
    assert "Paris" in answer.choices[0].text
    with client.completions.create(
        model=MODEL, prompt="The capital of France is", max_tokens=8, stream=True, **EXACT
    ) as stream:
        assert "".join(c.choices[0].text for c in stream if c.choices) == answer.choices[0].text


def test_several_at_once(client):
    want = streamed(client, max_tokens=24, temperature=0)
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda _: streamed(client, max_tokens=24, temperature=0), range(6)))
    # Texts of one batch may differ in rounding; that each is whole is what counts here.
    assert len(want) > 0
    assert all(len(text) > 0 for text in got)


def test_client_leaves_in_mid_stream(client, engines):
    procs.eventually("engines idle", lambda: busy(engines) == 0, 30)
    before = generated(engines)
    stream = client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True, **ENDLESS)
    pieces = 0
    for chunk in stream:
        pieces += bool(chunk.choices and chunk.choices[0].delta.content)
        if pieces == 5:
            break
    assert busy(engines) == 1
    left = time.monotonic()
    stream.close()
    procs.eventually("engine idle after its client left", lambda: busy(engines) == 0, 5, gap=0.02)
    REPORT.append(f"engine idle {time.monotonic() - left:.2f} s after its client left in mid-stream")
    assert generated(engines) - before < ENDLESS_TOKENS / 2


def test_client_leaves_before_the_first_byte(base_url, engines):
    procs.eventually("engines idle", lambda: busy(engines) == 0, 30)
    before = generated(engines)
    with new_client(base_url) as client, pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).completions.create(model=MODEL, prompt="Count: 1, 2,", **ENDLESS)
    # llama.cpp looks for a gone client only in a second without any other result, and a
    # question about metrics is one: leave it alone before asking.
    time.sleep(2)
    procs.eventually("engine idle after its client left", lambda: busy(engines) == 0, 10, gap=2)
    assert generated(engines) - before < ENDLESS_TOKENS / 2


def test_engine_error_is_passed_on(client, base_url):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x " * 5000}])
    assert caught.value.status_code == 400
    assert "context" in str(caught.value.body)
    assert "x-smg-error-code" not in caught.value.response.headers


@pytest.mark.gateway
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_wrong_model(client, stream):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=QUESTION, stream=stream)
    err = caught.value
    assert err.status_code == 404
    assert err.response.headers["x-smg-error-code"] == "model_not_found"
    body = err.response.json()["error"]
    assert body["code"] == "model_not_found"
    assert body["type"] == "Not Found"
    assert body["param"] is None
    assert "no-such-model" in body["message"]


@pytest.mark.gateway
def test_same_text_through_every_worker(client, gateway, engines, lone_engine):
    """Temperature 0: through the gateway, from each worker and from an engine alone."""
    assert len(engines) == 2
    with new_client(lone_engine.url) as direct:
        want = streamed(direct, max_tokens=40, **EXACT)
    assert want.strip()
    seen = [e.prompts() for e in engines]
    selections = gateway.selections()
    for _ in range(4):
        assert streamed(client, max_tokens=40, **EXACT) == want
        answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=40, **EXACT)
        assert answer.choices[0].message.content == want
    assert all(e.prompts() > s for e, s in zip(engines, seen)), "not every worker got a share"
    assert gateway.selections() - selections == 8
    for engine in engines:
        with new_client(engine.url) as direct:
            assert streamed(direct, max_tokens=40, **EXACT) == want


@pytest.mark.gateway
def test_gauges_return_to_zero(client, gateway, engines):
    client.completions.create(model=MODEL, prompt="One, two,", max_tokens=4)
    procs.eventually("no request in flight", lambda: gateway.active() == 0 and busy(engines) == 0, 10)


@pytest.mark.gateway
def test_probe_routes(base_url):
    for route in ("/health", "/liveness", "/readiness"):
        assert procs.get(base_url + route)[0] == 200, route
    assert procs.get(base_url + "/no-such-route")[0] == 404
