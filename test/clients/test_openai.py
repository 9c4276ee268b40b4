"""The official OpenAI client, plain and asynchronous."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import time

import openai
import procs
import pytest
from conftest import MODEL

QUESTION = [{"role": "user", "content": "Where is Käse made?"}]
# Keys in no order, numbers and characters that a decoder would write otherwise.
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "strict": True,
            "description": "Finds <places> & more — 数据",
            "parameters": {
                "type": "object",
                "required": ["where", "a"],
                "properties": {
                    "where": {
                        "type": "object",
                        "properties": {
                            "z": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"enum": ["b", "a"]}]}},
                            "a": {"type": "number", "minimum": 1e-7, "maximum": 12345678901234567890},
                        },
                        "additionalProperties": False,
                    },
                    "a": {"type": "string", "pattern": "^\\d+/\\w$", "default": ""},
                },
            },
        },
    }
]


@pytest.fixture
def client(fleet, version):
    http = fleet.http(openai.DefaultHttpxClient, version)
    # No retries: a test must see the first answer.
    with openai.OpenAI(
        base_url=fleet.url + "/v1", api_key="none", max_retries=0, timeout=60, http_client=http
    ) as c:
        yield c
    assert set(http.spoken) <= {version}


def test_models(client):
    assert MODEL in [m.id for m in client.models.list()]


def test_chat_and_stream(client):
    ask = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 30}
    whole = client.chat.completions.create(**ask)
    assert whole.choices[0].message.content
    text, usage, reasons = "", None, []
    with client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **ask) as stream:
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                if choice.finish_reason:
                    reasons.append(choice.finish_reason)
    assert text == whole.choices[0].message.content
    assert reasons == [whole.choices[0].finish_reason]
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens == whole.usage.prompt_tokens


def test_completion(client):
    answer = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=8, temperature=0)
    assert answer.choices[0].text


def test_embeddings(fleet, client):
    if not fleet.whole:
        pytest.skip("legs make no embeddings")
    assert len(client.embeddings.create(model=MODEL, input="Hello").data[0].embedding) > 0


def test_at_once(fleet, version):
    async def all_of_them() -> list[str]:
        trust = ssl.create_default_context(cafile=fleet.certificate) if fleet.certificate else True
        http = openai.DefaultAsyncHttpxClient(verify=trust, http1=version == "HTTP/1.1", http2=version == "HTTP/2")
        async with openai.AsyncOpenAI(
            base_url=fleet.url + "/v1", api_key="none", max_retries=0, http_client=http
        ) as c:

            async def one(i: int) -> str:
                messages = [{"role": "user", "content": f"Question {i % 5}"}]
                stream = await c.chat.completions.create(
                    model=MODEL, messages=messages, temperature=0, max_tokens=20, stream=True
                )
                return "".join([p.choices[0].delta.content or "" async for p in stream if p.choices])

            return await asyncio.gather(*[one(i) for i in range(40)])

    texts = asyncio.run(all_of_them())
    assert all(texts)
    for i, text in enumerate(texts):
        assert text == texts[i % 5], "an answer was mixed with another"


def test_tools_pass_unchanged(fleet, client):
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=QUESTION, tools=TOOLS, max_tokens=5)
    sent = raw.http_request.content.decode()
    tools = sent[sent.index('"tools":') :]
    tools = tools[: end_of_value(tools)]
    records = fleet.records(fleet.engines)
    assert len(records) == (1 if fleet.whole else 2)
    for r in records:
        assert tools in r["body"]
    if fleet.whole:
        assert records[0]["body"] == sent


def end_of_value(text: str) -> int:
    """Return where the JSON value behind the name at the begin of text ends."""
    start = text.index(":") + 1
    start += len(text[start:]) - len(text[start:].lstrip())
    return json.JSONDecoder().raw_decode(text, start)[1]


def test_image(fleet, client):
    image = base64.b64encode(random.Random(7).randbytes(6_700_000)).decode()
    content = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}},
    ]
    client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": content}], max_tokens=5)
    assert any(image in r["body"] for r in fleet.records(fleet.engines))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
def test_error_of_an_engine(fleet, client, status, error):
    fleet.rule(status=status, delay="50ms", body={"error": {"message": "no, thanks", "code": "said"}})
    with pytest.raises(error) as got:
        client.chat.completions.create(model=MODEL, messages=QUESTION)
    assert got.value.status_code == status
    assert "no, thanks" in str(got.value)


def test_errors_of_the_gateway(client):
    with pytest.raises(openai.NotFoundError) as got:
        client.chat.completions.create(model="nobody", messages=QUESTION)
    assert got.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as got:
        client.chat.completions.create(model=MODEL, messages="Hello")
    assert got.value.body["message"]


@pytest.mark.parametrize("fault", [{"cut_after": 3}, {"fail_after": 3}])
def test_stream_that_breaks_off(fleet, client, fault):
    fleet.rule(stream=fault)
    pieces = 0
    with pytest.raises(openai.APIError) as got:
        for _ in client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True):
            pieces += 1
    assert pieces >= 2
    assert str(got.value)


def test_time_out(fleet, client):
    fleet.rule(hold=True)
    start = time.monotonic()
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model=MODEL, messages=QUESTION, timeout=0.5)
    assert time.monotonic() - start < 20
    fleet.left(client)
    if fleet.name != "vllm-legs":  # there, decode has the KV before it is left
        procs.eventually("the engine to be left", lambda: all(e.idle() for e in fleet.engines), 10)


def test_cancel_in_a_stream(fleet, client):
    fleet.rule(stream={"tokens": 500, "gap": "20ms"})
    with client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True) as stream:
        for i, _ in enumerate(stream):
            if i == 3:
                break
    fleet.left(client)
    procs.eventually("the fleet at rest", fleet.at_rest, 8)  # the whole stream takes 10 s
    assert any(r.get("caller_closed") for r in fleet.records())
