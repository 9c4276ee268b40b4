"""The other end of a test: a ZeroMQ socket of libzmq, with messages of msgspec.

    peer.py publish vllm|sglang   publishes as the engine's publisher does, told by lines on
                                  standard input: "say SEQ FIRST", "cut", "end"
    peer.py read EVENTS REPLAY    subscribes to a publisher, reads three batches, asks for all
                                  of them again, and prints what it has read
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any, Optional

import msgspec
import zmq


class Batch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


def event_types(kind: str) -> tuple[type, type, type]:
    """The events as the engine has them: arrays of vLLM, maps of SGLang."""

    class Event(msgspec.Struct, array_like=kind == "vllm", omit_defaults=True, tag=True):
        pass

    if kind == "vllm":

        class BlockStored(Event):
            block_hashes: list[Any]
            parent_block_hash: Any
            token_ids: list[int]
            block_size: int
            lora_id: Optional[int]
            medium: Optional[str]
            lora_name: Optional[str]
            extra_keys: Optional[list[Any]] = None
            group_idx: Optional[int] = None

    else:

        class BlockStored(Event):
            block_hashes: list[Any]
            parent_block_hash: Any
            token_ids: list[int]
            block_size: int
            lora_id: Optional[int]
            medium: Optional[str] = None

    class BlockRemoved(Event):
        block_hashes: list[Any]
        medium: Optional[str] = None

    class AllBlocksCleared(Event):
        pass

    return BlockStored, BlockRemoved, AllBlocksCleared


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def publish(kind: str) -> None:
    stored, removed, cleared = event_types(kind)
    context = zmq.Context()
    pub = context.socket(zmq.XPUB)  # a PUB that tells of its subscribers
    pub.setsockopt(zmq.XPUB_VERBOSE, 1)
    port = pub.bind_to_random_port("tcp://127.0.0.1")
    router = context.socket(zmq.ROUTER)
    replay = router.bind_to_random_port("tcp://127.0.0.1")
    tell(events=f"tcp://127.0.0.1:{port}", replay=f"tcp://127.0.0.1:{replay}", zmq=zmq.zmq_version())
    lines = context.socket(zmq.PAIR)
    lines.bind("inproc://lines")

    def read_lines() -> None:
        to = context.socket(zmq.PAIR)
        to.connect("inproc://lines")
        for line in sys.stdin:
            to.send_string(line.strip())
        to.send_string("end")
        to.close()

    threading.Thread(target=read_lines, daemon=True).start()
    log: list[tuple[int, bytes]] = []
    poller = zmq.Poller()
    for socket in (pub, router, lines):
        poller.register(socket, zmq.POLLIN)
    while True:
        ready = dict(poller.poll())
        if pub in ready:
            tell(subscribed=pub.recv().hex())
        if router in ready:
            frames = router.recv_multipart()
            assert len(frames) == 3, frames
            client, _, start = frames
            for seq, payload in log:
                if seq >= int.from_bytes(start, "big"):
                    router.send_multipart((client, b"", seq.to_bytes(8, "big"), payload))
            router.send_multipart((client, b"", (-1).to_bytes(8, "big", signed=True), b""))
        if lines not in ready:
            continue
        match lines.recv_string().split():
            case ["say", number, first]:
                seq, h = int(number), int(first)
                rest = (None,) if kind == "vllm" else ()
                big = (2**63 + h).to_bytes(32, "big") if kind == "vllm" else -h
                batch = Batch(1.5, [
                    stored([h, big], None, list(range(h, h + 8)), 4, None, "GPU", *rest),
                    removed([h], "GPU"),
                    cleared(),
                ], 0)
                payload = msgspec.msgpack.encode(batch)
                log.append((seq, payload))
                pub.send_multipart((b"kv-events", seq.to_bytes(8, "big"), payload))
            case ["large", number]:
                payload = msgspec.msgpack.encode(Batch(1.5, [removed(list(range(500_000)))], 0))
                pub.send_multipart((b"kv-events", int(number).to_bytes(8, "big"), payload))
            case _:
                context.destroy(linger=0)
                return


def read(events: str, replay: str) -> None:
    context = zmq.Context()
    sub = context.socket(zmq.SUB)
    sub.setsockopt(zmq.HEARTBEAT_IVL, 50)
    sub.setsockopt(zmq.HEARTBEAT_TIMEOUT, 2000)
    sub.setsockopt_string(zmq.SUBSCRIBE, "kv")
    sub.connect(events)
    tell(reading=True)

    def batch(frames: list[bytes]) -> list[Any]:
        return [int.from_bytes(frames[-2], "big"), msgspec.msgpack.decode(frames[-1])[1]]

    live = [batch(sub.recv_multipart()) for _ in range(3)]
    req = context.socket(zmq.DEALER)
    req.connect(replay)
    req.send_multipart((b"", (0).to_bytes(8, "big")))
    again = []
    while (frames := req.recv_multipart())[-2] != b"\xff" * 8:
        again.append(batch(frames))
    tell(live=live, again=again)
    context.destroy(linger=0)


if __name__ == "__main__":
    {"publish": publish, "read": read}[sys.argv[1]](*sys.argv[2:])
