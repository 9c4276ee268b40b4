"""Our messages and those that are published, and simulated engines, for the tests of this folder."""

from __future__ import annotations

import pathlib
import re
import subprocess

import grpc
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


class Sim:
    """A simulated engine that speaks gRPC, seen through the published stubs."""

    def __init__(self, kind: str, address: str):
        from smg_grpc_proto import sglang_scheduler_pb2 as sglang
        from smg_grpc_proto import sglang_scheduler_pb2_grpc as sglang_grpc
        from smg_grpc_proto import vllm_engine_pb2 as vllm
        from smg_grpc_proto import vllm_engine_pb2_grpc as vllm_grpc

        self.kind, self.channel = kind, grpc.insecure_channel(address)
        self.pb = sglang if kind == "sglang" else vllm
        self.stub = sglang_grpc.SglangSchedulerStub(self.channel) if kind == "sglang" else vllm_grpc.VllmEngineStub(self.channel)

    def request(self, rid: str, tokens: list[int], limit: int, stream: bool, **more):
        length = "max_new_tokens" if self.kind == "sglang" else "max_tokens"
        sampling = self.pb.SamplingParams(temperature=0, top_p=1, repetition_penalty=1, n=1, skip_special_tokens=True, **{length: limit})
        return self.pb.GenerateRequest(
            request_id=rid, tokenized=self.pb.TokenizedInput(input_ids=tokens), sampling_params=sampling, stream=stream, **more
        )


@pytest.fixture(scope="session", params=["sglang", "vllm"])
def sim(request):
    command = [ROOT / "bin" / "smg-sim", "--port", "0", "--grpc-mode", "--kv-events", "--engine", request.param, "--time-scale", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline()
            found = re.search(r"listening on grpc://(\S+)", line)
            assert found, line
            engine = Sim(request.param, found[1])
            grpc.channel_ready_future(engine.channel).result(timeout=10)
            yield engine
            engine.channel.close()
        finally:
            process.terminate()
