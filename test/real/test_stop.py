"""SIGTERM while an answer is under way: it ends whole, then the engines go."""

from __future__ import annotations

import threading

import pytest

import procs
from conftest import MODEL, new_client


@pytest.mark.gateway
def test_sigterm_lets_the_answer_end(start_gateway):
    gw = start_gateway()
    below = gw.below()
    assert len(below) >= 2
    try:
        with new_client(gw.url) as client:
            stream = client.completions.create(
                model=MODEL, prompt="Count: 1, 2,", max_tokens=150, stream=True, extra_body={"ignore_eos": True}
            )
            chunks = iter(stream)
            got = [next(chunks)]
            code = []
            stopper = threading.Thread(target=lambda: code.append(gw.stop()))
            stopper.start()
            got += list(chunks)
            stopper.join()
    finally:
        gw.stop()
    assert [c.choices[0].finish_reason for c in got if c.choices and c.choices[0].finish_reason] == ["length"]
    assert code == [143], gw.tail()
    assert not [p for p in below if procs.alive(p)], gw.tail()
