"""Our messages and those that are published, for the tests of this folder."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def our_files(tmp_path_factory) -> descriptor_pb2.FileDescriptorSet:
    """The descriptors of our .proto files and of what they import."""
    out = tmp_path_factory.mktemp("proto") / "ours.bin"
    protos = sorted(str(p) for p in (ROOT / "engine" / "enginepb").glob("*/*.proto"))
    assert len(protos) == 3
    subprocess.run(["go", "-C", str(ROOT / "tools"), "run", "./protogen", "-descriptors", str(out), *protos], check=True)
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


@pytest.fixture(scope="session")
def ours(our_files) -> descriptor_pool.DescriptorPool:
    return pool_of(our_files)


def pool_of(files: descriptor_pb2.FileDescriptorSet) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


@pytest.fixture(scope="session")
def theirs() -> descriptor_pool.DescriptorPool:
    """The published descriptors."""
    from smg_grpc_proto import sglang_scheduler_pb2, vllm_engine_pb2  # noqa: F401 - they register themselves
    from smg_grpc_proto.generated import common_pb2  # noqa: F401

    return descriptor_pool.Default()
