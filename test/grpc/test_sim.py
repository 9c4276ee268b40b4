"""The published stubs against our simulated engines."""

from __future__ import annotations

import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from smg_grpc_proto.generated import common_pb2

PROMPT = list(range(100, 164))
LIMIT = 12


def read(sim, request):
    """The tokens of an answer by its pieces, and its end."""
    pieces, end = [], None
    for m in sim.stub.Generate(request, timeout=10):
        if m.WhichOneof("response") == "chunk":
            pieces.append(list(m.chunk.token_ids))
        else:
            end = m.complete
    return pieces, end


def test_streamed_and_whole(sim):
    pieces, end = read(sim, sim.request("a", PROMPT, LIMIT, True))
    assert [len(p) for p in pieces] == [1] * LIMIT
    assert list(end.output_ids) == pieces[-1]
    assert (end.finish_reason, end.prompt_tokens) == ("length", len(PROMPT))
    none, whole = read(sim, sim.request("b", PROMPT, LIMIT, False))
    assert none == []
    assert list(whole.output_ids) == [t for p in pieces for t in p]
    assert whole.completion_tokens == LIMIT
    assert whole.cached_tokens == 48  # the last block has the token that is always computed


def test_rooms_and_ranks_are_heard(sim):
    if sim.kind == "sglang":
        more = {"disaggregated_params": sim.pb.DisaggregatedParams(bootstrap_host="h", bootstrap_port=1, bootstrap_room=2)}
    else:
        more = {"kv_transfer_params_json": "not JSON"}
    request = sim.request("c", PROMPT, LIMIT, False, **more)
    if sim.kind == "sglang":
        read(sim, request)  # an engine that works alone leaves it alone
    else:
        with pytest.raises(grpc.RpcError) as fault:
            read(sim, request)
        assert fault.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as fault:
        read(sim, sim.request("d", PROMPT, LIMIT, False, data_parallel_rank=7))
    assert fault.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_questions(sim):
    assert sim.stub.HealthCheck(sim.pb.HealthCheckRequest()).healthy
    model = sim.stub.GetModelInfo(sim.pb.GetModelInfoRequest())
    assert (model.served_model_name, model.is_generation, list(model.eos_token_ids)) == ("sim", True, [2])
    server = sim.stub.GetServerInfo(sim.pb.GetServerInfoRequest())
    if sim.kind == "sglang":
        assert server.server_args["dp_size"] == 1
        assert server.server_args["disaggregation_mode"] == "null"
    else:
        assert server.data_parallel_size == 1
    loads = sim.stub.GetLoads(sim.pb.GetLoadsRequest(include=["core", "queues"]))
    assert loads.dp_rank_count == 1
    assert loads.loads[0].max_total_num_tokens == 8192 * 16
    assert sim.stub.FlushCache(common_pb2.FlushCacheRequest()).success
    with pytest.raises(grpc.RpcError) as fault:
        sim.stub.Embed(sim.pb.EmbedRequest())
    assert fault.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_standard_health(sim):
    stub = health_pb2_grpc.HealthStub(sim.channel)
    service = {"sglang": "sglang.grpc.scheduler.SglangScheduler", "vllm": "vllm.grpc.engine.VllmEngine"}[sim.kind]
    for name in ("", service):
        assert stub.Check(health_pb2.HealthCheckRequest(service=name)).status == health_pb2.HealthCheckResponse.SERVING


def test_abort(sim):
    if sim.kind == "sglang":
        assert not sim.stub.Abort(sim.pb.AbortRequest(request_id="nobody", reason="test")).success
    else:
        sim.stub.Abort(sim.pb.AbortRequest(request_ids=["nobody"]))


def test_kv_events(sim):
    """Blocks come with their tokens, each chained to the one before."""
    prompt = list(range(5000, 5064))
    call = sim.stub.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest(start_sequence_number=0))
    call.initial_metadata()  # the subscription is taken before there is an event
    read(sim, sim.request("e", prompt, LIMIT, False))
    limit = threading.Timer(10, call.cancel)
    limit.start()
    blocks, last = {}, 0
    for batch in call:
        assert batch.sequence_number == last + 1 or last == 0
        last = batch.sequence_number
        for event in batch.events:
            if event.WhichOneof("data") == "stored":
                for b in event.stored.blocks:
                    parent = event.stored.parent_block_hash if event.stored.HasField("parent_block_hash") else None
                    blocks[b.block_hash] = (parent, list(b.token_ids))
        chains = [h for h, (parent, tokens) in blocks.items() if tokens == prompt[48:64]]
        if chains:
            break
    call.cancel()
    limit.cancel()
    tokens, h = [], chains[0]
    while h is not None:
        h, these = blocks[h][0], blocks[h][1]
        tokens = these + tokens
    assert tokens == prompt
    with pytest.raises(grpc.RpcError) as fault:
        next(iter(sim.stub.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest(start_sequence_number=10**6))))
    assert fault.value.code() == grpc.StatusCode.OUT_OF_RANGE
