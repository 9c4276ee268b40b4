"""vLLM's engines, as these tests start and see them."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from dataclasses import dataclass

import procs

MODEL = "tiny"
# Requests that an engine works on at the same time; others wait.
SLOTS = 4
CONTEXT = 32768
# Seconds for which a prefill engine keeps KV that nobody has fetched.
LEASE = 12
VENV = pathlib.Path(sys.prefix)
SCHEDULER = {"running": "num_requests_running", "waiting": "num_requests_waiting", "usage": "kv_cache_usage_perc"}


@dataclass
class Engine:
    """One vLLM, seen through its own port."""

    url: str

    def sample(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        got = procs.metrics(self.url + "/metrics")
        return sum(v for k, v in got.items() if k.partition("{")[0] == "vllm:" + name)

    def running(self) -> float:
        return self.sample(SCHEDULER["running"])

    def waiting(self) -> float:
        return self.sample(SCHEDULER["waiting"])

    def idle(self) -> bool:
        """Tell whether it has no request and keeps no KV for anybody."""
        return self.running() == self.waiting() == self.sample(SCHEDULER["usage"]) == 0

    def blocks(self) -> int:
        """Return the blocks of KV that requests hold, those kept for a decode engine too."""
        got = procs.metrics(self.url + "/metrics")
        info = next(k for k in got if k.startswith("vllm:cache_config_info"))
        total = int(info.partition('num_gpu_blocks="')[2].partition('"')[0])
        return round(self.sample(SCHEDULER["usage"]) * (total - 1))

    def fetched(self) -> float:
        """Return the tokens of prompts whose KV came from another engine."""
        return self.sample("external_prefix_cache_hits_total")


def command(port: int, *args: str) -> list[str]:
    """Return the command line of a small engine on one core."""
    return [
        str(VENV / "bin" / "vllm"), "serve", str(VENV / "model"), "--served-model-name", MODEL,
        "--host", procs.HOST, "--port", str(port), "--enforce-eager", "--dtype", "float32",
        "--max-num-seqs", str(SLOTS), "--max-model-len", str(CONTEXT), *args,
    ]  # fmt: skip


def handing_over(role: str, **extra: float) -> list[str]:
    """Return the flags that make an engine hand KV over with NIXL."""
    config = {"kv_connector": "NixlConnector", "kv_role": role}
    if extra:
        config["kv_connector_extra_config"] = extra
    return ["--kv-transfer-config", json.dumps(config)]


def environment(side_channel: int) -> dict[str, str]:
    """Return what the engines run with: one thread, little memory, nothing but this machine."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("VLLM_", "UCX_", "OPENBLAS_"))}
    return env | {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_HOST_IP": procs.HOST,
        "VLLM_NIXL_SIDE_CHANNEL_HOST": procs.HOST,
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_channel),
        "UCX_TLS": "tcp,sm,self",
        "UCX_NET_DEVICES": "lo",
    }
