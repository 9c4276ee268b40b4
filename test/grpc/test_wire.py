"""Our messages against the published ones: names, numbers, types, services, bytes.

Ours may lack what smg has no use for. What they have must be the same.
"""

from __future__ import annotations

import random

import pytest
from conftest import pool_of
from google.protobuf import descriptor as d
from google.protobuf import descriptor_pb2, message_factory, text_format

SERVICES = {
    "sglang.grpc.scheduler.SglangScheduler": 15,
    "vllm.grpc.engine.VllmEngine": 10,
}


def own_files(files):
    return [f for f in files.file if not f.name.startswith("google/")]


def messages(pool, files):
    """All messages of our files, those inside others too."""
    stack = [m for f in own_files(files) for m in pool.FindFileByName(f.name).message_types_by_name.values()]
    while stack:
        m = stack.pop()
        stack.extend(m.nested_types)
        yield m


def word(f: d.FieldDescriptor) -> str:
    """All that the bytes of a field depend on, and its oneof."""
    kind = f.message_type.full_name if f.message_type else f.enum_type.full_name if f.enum_type else f.type
    oneof = f.containing_oneof.name if f.containing_oneof else None
    return f"{f.name} = {f.number}: type {kind}, repeated {f.is_repeated}, packed {f.is_packed}, presence {f.has_presence}, oneof {oneof}"


def faults(files, theirs) -> list[str]:
    ours = pool_of(files)
    found = []
    for m in messages(ours, files):
        try:
            other = theirs.FindMessageTypeByName(m.full_name)
        except KeyError:
            found.append(f"{m.full_name}: not published")
            continue
        for f in m.fields:
            same = other.fields_by_name.get(f.name)
            if same is None:
                found.append(f"{m.full_name}.{f.name}: not published")
            elif word(f) != word(same):
                found.append(f"{m.full_name}: ours {word(f)}; published {word(same)}")
    for file in own_files(files):
        for e in ours.FindFileByName(file.name).enum_types_by_name.values():
            other = theirs.FindEnumTypeByName(e.full_name)
            for v in e.values:
                same = other.values_by_name.get(v.name)
                if same is None or same.number != v.number:
                    found.append(f"{e.full_name}.{v.name} = {v.number}: published {same and same.number}")
    for name in SERVICES:
        other = theirs.FindServiceByName(name)
        for m in ours.FindServiceByName(name).methods:
            same = other.methods_by_name.get(m.name)
            if same is None:
                found.append(f"{name}.{m.name}: not published")
                continue
            shape = [(x.input_type.full_name, x.output_type.full_name, x.client_streaming, x.server_streaming) for x in (m, same)]
            if shape[0] != shape[1]:
                found.append(f"{name}.{m.name}: ours {shape[0]}; published {shape[1]}")
    return found


def test_gateway_59_names_and_numbers(our_files, theirs):
    assert faults(our_files, theirs) == []


def test_all_methods_are_there(ours):
    for name, count in SERVICES.items():
        assert len(ours.FindServiceByName(name).methods) == count


# What the test above must notice: an edit of one of our files, and the word it is told by.
EDITS = {
    "number": (lambda files: field(files, "sglang.grpc.scheduler.SchedulerLoad", "num_waiting_uncached_tokens"), "number", 18),
    "type": (lambda files: field(files, "vllm.grpc.engine.SamplingParams", "top_k"), "type", 5),
    "presence": (lambda files: field(files, "vllm.grpc.engine.EmbedResponse", "prompt_tokens"), "label", 3),
    "name": (lambda files: field(files, "smg.grpc.common.KvBlock", "block_hash"), "name", "block_hush"),
}


def field(files, message: str, name: str):
    for f in files.file:
        for m in f.message_type:
            if f"{f.package}.{m.name}" == message:
                return next(x for x in m.field if x.name == name)
    raise KeyError(message)


@pytest.mark.parametrize("edit", EDITS)
def test_what_differs_is_noticed(our_files, theirs, edit):
    changed = descriptor_pb2.FileDescriptorSet()
    changed.CopyFrom(our_files)
    where, what, value = EDITS[edit]
    setattr(where(changed), what, value)
    assert len(faults(changed, theirs)) == 1


def fill(message, rng: random.Random, depth: int = 0) -> None:
    """Sets every field, of a oneof one by chance."""
    oneofs = {o.name: rng.choice([f.name for f in o.fields]) for o in message.DESCRIPTOR.oneofs}
    for f in message.DESCRIPTOR.fields:
        if f.containing_oneof and oneofs[f.containing_oneof.name] != f.name:
            continue
        if f.message_type and f.message_type.GetOptions().map_entry:
            key, value = f.message_type.fields_by_name["key"], f.message_type.fields_by_name["value"]
            if value.message_type:
                fill(getattr(message, f.name)[some(key, rng)], rng, depth + 1)
            else:
                getattr(message, f.name)[some(key, rng)] = some(value, rng)
        elif f.message_type and f.message_type.file.name.startswith("google/protobuf/struct"):
            getattr(message, f.name).update({"dp_size": 2, "list": [True, None, "x"]})
        elif f.message_type:
            if f.is_repeated:
                fill(getattr(message, f.name).add(), rng, depth + 1)
            else:
                fill(getattr(message, f.name), rng, depth + 1)
        elif f.is_repeated:
            getattr(message, f.name).extend(some(f, rng) for _ in range(3))
        else:
            setattr(message, f.name, some(f, rng))


def some(f, rng: random.Random):
    t = f.cpp_type
    if t in (f.CPPTYPE_INT32, f.CPPTYPE_INT64):
        return rng.choice([-(2**31) if t == f.CPPTYPE_INT32 else -(2**63), -1, 1, rng.randrange(2**31)])
    if t in (f.CPPTYPE_UINT32, f.CPPTYPE_UINT64):
        return rng.choice([1, 2**32 - 1 if t == f.CPPTYPE_UINT32 else 2**64 - 1])
    if t in (f.CPPTYPE_DOUBLE, f.CPPTYPE_FLOAT):
        return rng.choice([0.5, -1.25])
    if t == f.CPPTYPE_BOOL:
        return True
    if t == f.CPPTYPE_ENUM:
        return f.enum_type.values[-1].number
    return b"\x00\xff" if f.type == f.TYPE_BYTES else "grüße"


@pytest.mark.parametrize("seed", range(8))
def test_gateway_59_bytes(our_files, ours, theirs, seed):
    """What ours says theirs reads, and the other way round: nothing is lost or unknown."""
    rng, count = random.Random(seed), 0
    for m in messages(ours, our_files):
        if m.GetOptions().map_entry:
            continue
        our, their = message_factory.GetMessageClass(m), message_factory.GetMessageClass(theirs.FindMessageTypeByName(m.full_name))
        said = our()
        fill(said, rng)
        heard = their.FromString(said.SerializeToString())
        assert text_format.MessageToString(heard) == text_format.MessageToString(said), m.full_name
        assert our.FromString(heard.SerializeToString()) == said, m.full_name
        count += 1
    assert count > 80
