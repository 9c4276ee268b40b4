"""Records messages as the published stubs encode them, for the Go tests of engine/rpc:

    .venv-grpc/bin/python test/grpc/record.py engine/rpc/testdata/published.json

Each is a name, what it says and its bytes in hex.
"""

from __future__ import annotations

import json
import pathlib
import sys

from google.protobuf import json_format
from smg_grpc_proto import sglang_scheduler_pb2 as sglang
from smg_grpc_proto import vllm_engine_pb2 as vllm
from smg_grpc_proto.generated import common_pb2 as common

MESSAGES = [
    sglang.GenerateRequest(
        request_id="r", tokenized=sglang.TokenizedInput(original_text="t", input_ids=[1, 2**32 - 1]), return_logprob=True, logprob_start_len=-1,
        top_logprobs_num=2, token_ids_logprob=[3], disaggregated_params=sglang.DisaggregatedParams(bootstrap_host="h", bootstrap_port=8998, bootstrap_room=2**31 - 1),
        data_parallel_rank=0, stream=True,
        sampling_params=sglang.SamplingParams(temperature=0.5, top_p=0.5, top_k=-1, max_new_tokens=0, stop=["a"], stop_token_ids=[7], json_schema="{}", n=2, logit_bias={"5": -1}),
    ),
    sglang.GenerateResponse(request_id="r", chunk=sglang.GenerateStreamChunk(token_ids=[5], prompt_tokens=3, completion_tokens=1, cached_tokens=2, index=1)),
    sglang.GenerateResponse(request_id="r", complete=sglang.GenerateComplete(output_ids=[5], finish_reason="stop", matched_token_id=2, index=1)),
    sglang.GetLoadsResponse(loads=[sglang.SchedulerLoad(dp_rank=1, num_running_reqs=2, token_usage=0.5, num_waiting_uncached_tokens=9, queues=sglang.QueueMetrics(grammar=1))]),
    vllm.GenerateRequest(
        request_id="r", tokenized=vllm.TokenizedInput(input_ids=[1]), stream=True, kv_transfer_params_json="{}", data_parallel_rank=0,
        sampling_params=vllm.SamplingParams(temperature=0, top_k=4, max_tokens=0, logprobs=0, prompt_logprobs=1, seed=-1, json_object=True, logit_bias={5: -1}),
    ),
    vllm.GenerateResponse(chunk=vllm.GenerateStreamChunk(token_ids=[5], prompt_tokens=3, completion_tokens=1, cached_tokens=2, index=1)),
    vllm.GenerateResponse(complete=vllm.GenerateComplete(output_ids=[5], finish_reason="length", matched_stop_str="a", kv_transfer_params_json="{}")),
    vllm.GetServerInfoResponse(kv_connector="NixlConnector", kv_role="kv_both", kv_engine_id="e", data_parallel_size=2),
    vllm.AbortRequest(request_ids=["a", "b"]),
    common.KvEventBatch(
        sequence_number=2**63, timestamp=1.5, dp_rank=1, load=common.EngineLoad(load_only=True),
        events=[
            common.KvCacheEvent(event_id=1, stored=common.KvBlocksStored(parent_block_hash=-1, blocks=[common.KvBlock(block_hash=-2, token_ids=[1, 2], block_size=2)])),
            common.KvCacheEvent(event_id=2, removed=common.KvBlocksRemoved(block_hashes=[-2, 3])),
            common.KvCacheEvent(event_id=3, cleared=common.KvCacheCleared()),
        ],
    ),
]


def main() -> None:
    entries = [
        {"message": m.DESCRIPTOR.full_name, "says": json_format.MessageToDict(m, preserving_proto_field_name=True), "bytes": m.SerializeToString(deterministic=True).hex()}
        for m in MESSAGES
    ]
    pathlib.Path(sys.argv[1]).write_text(json.dumps(entries, indent=1) + "\n")


main()
