"""Which flag sets which field of a request, so that a refusal of the service can be read on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ENGINE: Final = {
    "name": "--engine",
    "version": "--engine-version",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "mem_fraction_static": "--mem-fraction-static",
    "free_gpu_memory_fraction": "--free-gpu-memory-fraction",
}

FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "model": "MODEL",
        "model.config_json": "--config",
        "model.quantization_config_json": "--quantization-config",
        "precision.weights": "--precision",
        "precisions": "--precision",
        "precision.kv_cache": "--kv-cache",
        "kv_cache": "--kv-cache",
        "training.batch_size": "--training-batch",
        "training.sequence_length_tokens": "--training-length",
        "training": "--training-batch and --training-length",
        "training.optimizer": "--optimizer",
        "target": "--output-tokens-per-s, --requests-per-s or --concurrent-users",
        "target.output_tokens_per_s": "--output-tokens-per-s",
        "target.requests_per_s": "--requests-per-s",
        "target.concurrent_users": "--concurrent-users",
        "workload.input_tokens": "--input-tokens",
        "workload.output_tokens": "--output-tokens",
        "workload.max_context_tokens": "--max-context-tokens",
        "workload.prefix_cache_hit_share": "--prefix-cache-hit-share",
        "latency_limits": "--ttft-ms, --itl-ms or --e2e-ms",
        "objective": "--objective",
        "max_placements": "--max-placements",
        "constraints.allowed_accelerators": "--accelerator",
        "constraints.denied_accelerators": "--deny-accelerator",
        "constraints.mig_policy": "--mig",
        "constraints.mig_profiles": "--mig-profile",
        "constraints.tensor_parallel_sizes": "--tensor-parallel",
        "constraints.max_devices": "--max-devices",
        "constraints.max_usd_per_h": "--max-usd-per-h",
        "constraints.headroom_share": "--headroom",
        "constraints.price_term": "--price-term",
        "deployment.accelerator": "ACCELERATOR",
        "deployment.mig_profile": "--mig-profile",
        "deployment.tensor_parallel": "--tensor-parallel",
        "deployment.replica_count": "--replicas",
        "concurrency": "--concurrency",
        "second_opinions": "--second-opinion",
        "filter": "--filter",
        "page_size": "--page-size",
        "page_token": "--page-token",
        "database_url": "--database-url",
        **{f"constraints.engine.{field}": flag for field, flag in _ENGINE.items()},
        **{f"deployment.engine.{field}": flag for field, flag in _ENGINE.items()},
    }
)


def flag_of(field: str) -> str:
    """The flag that sets a field, or the nearest message around it; empty when no flag does.

    Args:
        field: path in the request, e.g. ``latency_limits[0].limit_ms``.
    """
    path = re.sub(r"\[[^\]]*\]", "", field)
    while path:
        if path in FLAGS:
            return FLAGS[path]
        path = path.rpartition(".")[0]
    return ""
