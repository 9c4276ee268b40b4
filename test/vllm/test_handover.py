"""Prefill and decode on two vLLM engines, with NIXL handing the KV over between them."""

from __future__ import annotations

import openai
import pytest

import procs
from engines import LEASE, MODEL


@pytest.fixture
def gateway(fleet, start_gateway):
    gw = start_gateway(
        "--pd-disaggregation", "--prefill", fleet.producer.url, "none", "--decode", fleet.consumer.url
    )
    procs.eventually("engines idle", lambda: fleet.producer.idle() and fleet.consumer.idle(), 60)
    return gw


def failures(gateway) -> float:
    return procs.metrics(gateway.metrics_url)["smg_pd_kv_transfer_failures_total"]


def chat(client, text: str, **kw) -> tuple[str, int]:
    """Return what a chat is answered, and the tokens of its prompt."""
    messages = [{"role": "user", "content": text}]
    if not kw.get("stream"):
        answer = client.chat.completions.create(model=MODEL, messages=messages, temperature=0, **kw)
        return answer.choices[0].message.content, answer.usage.prompt_tokens
    kw["stream_options"] = {"include_usage": True}
    chunks = list(client.chat.completions.create(model=MODEL, messages=messages, temperature=0, **kw))
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    return said, next(c.usage.prompt_tokens for c in chunks if c.usage)


def completion(client, prompt, **kw) -> tuple[list[str], int]:
    answer = client.completions.create(model=MODEL, prompt=prompt, **{"temperature": 0, **kw})
    return [c.text for c in answer.choices], answer.usage.prompt_tokens


@pytest.mark.parametrize(
    "ask, kw",
    [
        pytest.param(chat, {"max_tokens": 24}, id="chat"),
        pytest.param(chat, {"max_completion_tokens": 24}, id="max_completion_tokens"),
        pytest.param(chat, {"max_tokens": 24, "min_tokens": 8}, id="min_tokens"),
        pytest.param(chat, {"max_tokens": 24, "stream": True}, id="streamed"),
        pytest.param(completion, {"max_tokens": 24}, id="completion"),
    ],
)
def test_decode_fetches_what_prefill_computed(gateway, fleet, new_client, prompt, ask, kw):
    text, kw = prompt(), dict(kw)
    if "min_tokens" in kw:
        kw["extra_body"] = {"min_tokens": kw.pop("min_tokens")}
    want, _ = ask(new_client(fleet.plain), text, **kw)
    before = fleet.consumer.fetched()
    got, tokens = ask(new_client(gateway), text, **kw)
    assert got == want
    assert fleet.consumer.fetched() - before == tokens, "decode computed of the prompt itself"
    assert failures(gateway) == 0
    procs.eventually("prefill lets go of the KV", fleet.producer.idle, LEASE / 2)


def test_decode_alone_answers_a_batch(gateway, fleet, new_client, prompt):
    """Prefill would say where the first prompt's KV is, and decode would look there for all."""
    prompts = [prompt("one"), prompt("of two and more"), prompt("three")]
    want = [completion(new_client(fleet.plain), p, max_tokens=16)[0][0] for p in prompts]
    before = fleet.consumer.fetched()
    assert completion(new_client(gateway), prompts, max_tokens=16)[0] == want
    assert fleet.consumer.fetched() == before
    assert fleet.producer.blocks() == 0
    # The list form of a single prompt goes both ways.
    one = [prompt("single")]
    want = completion(new_client(fleet.plain), one, max_tokens=16)[0]
    got, tokens = completion(new_client(gateway), one, max_tokens=16)
    assert (got, fleet.consumer.fetched() - before) == (want, tokens)


def test_decode_alone_gives_several_answers(gateway, fleet, new_client, prompt):
    before = fleet.consumer.fetched()
    answer = new_client(gateway).completions.create(model=MODEL, prompt=prompt(), max_tokens=8, n=2)
    assert [c.index for c in answer.choices] == [0, 1]
    assert answer.usage.completion_tokens == 16
    assert fleet.consumer.fetched() == before
    assert fleet.producer.blocks() == 0


def test_a_client_that_leaves_frees_both(gateway, fleet, new_client, prompt):
    stream = new_client(gateway).completions.create(model=MODEL, prompt=prompt(), max_tokens=3000, stream=True)
    next(iter(stream))
    assert fleet.consumer.running() == 1
    stream.close()
    procs.eventually("both engines idle", lambda: fleet.consumer.idle() and fleet.producer.idle(), LEASE / 2)


def test_what_decode_refuses_frees_prefill(gateway, fleet, new_client, prompt):
    """vLLM's decode engine tells prefill's of a request that it does not take."""
    client = new_client(gateway)
    completion(client, prompt(), max_tokens=1)  # the engines have met
    with pytest.raises(openai.BadRequestError) as caught:
        completion(client, prompt(), max_tokens=1_000_000)
    assert "max_model_len" in str(caught.value.body)
    procs.eventually("prefill lets go of the KV", fleet.producer.idle, LEASE / 2)
