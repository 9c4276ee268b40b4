"""The official Anthropic client."""

from __future__ import annotations

import base64
import random

import anthropic
import procs
import pytest
from conftest import MODEL

ASK = {"model": MODEL, "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}], "system": "Be brief."}


@pytest.fixture
def client(fleet, version):
    http = fleet.http(anthropic.DefaultHttpxClient, version)
    with anthropic.Anthropic(base_url=fleet.url, api_key="none", max_retries=0, timeout=60, http_client=http) as c:
        yield c
    assert set(http.spoken) <= {version}


def test_message_and_stream(client):
    whole = client.messages.create(**ASK)
    assert whole.content[0].text
    with client.messages.stream(**ASK) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, anthropic.BadRequestError), (429, anthropic.RateLimitError), (500, anthropic.InternalServerError)],
)
def test_error_of_an_engine(fleet, client, status, error):
    fleet.rule(status=status, delay="50ms", body={"type": "error", "error": {"type": "said", "message": "no, thanks"}})
    with pytest.raises(error) as got:
        client.messages.create(**ASK)
    assert "no, thanks" in str(got.value)


def test_image(fleet, client):
    image = base64.b64encode(random.Random(8).randbytes(6_700_000)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": image}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    answer = client.messages.create(**{**ASK, "messages": [{"role": "user", "content": content}]})
    assert answer.content[0].text
    assert any(image in r["body"] for r in fleet.records(fleet.engines))


def test_errors_of_the_gateway(client):
    with pytest.raises(anthropic.NotFoundError) as got:
        client.messages.create(**{**ASK, "model": "nobody"})
    assert "nobody" in str(got.value)


def test_stream_that_breaks_off(fleet, client):
    """The error has a name, without which the client would pass over it."""
    fleet.rule(stream={"cut_after": 4})
    with pytest.raises(anthropic.APIError) as got:
        with client.messages.stream(**ASK) as stream:
            stream.get_final_message()
    assert "upstream_stream_error" in str(got.value) or "decode_stream_error" in str(got.value)


def test_cancel_in_a_stream(fleet, client):
    fleet.rule(stream={"tokens": 500, "gap": "20ms"})
    with client.messages.stream(**ASK) as stream:
        for i, _ in enumerate(stream):
            if i == 4:
                break
    fleet.left(client)
    procs.eventually("the fleet at rest", fleet.at_rest, 8)  # the whole stream takes 10 s
