"""A published or own measurement of a serving deployment, as a plain value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LOAD_KINDS: Final = ("concurrency", "offline_max", "batch", "qps")
"""How load was applied: a fixed number of requests in flight (a closed loop), everything queued at once, one fixed
batch from beginning to end, or arrivals at a rate (an open loop)."""

LATENCY_METRICS: Final = ("tpot_ms", "itl_ms", "ttft_ms", "e2e_latency_ms")
RATE_METRICS: Final = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "samples_per_s")
METRICS: Final = (*LATENCY_METRICS, *RATE_METRICS)
"""What was measured. ``total_tokens_per_s`` counts prompt and generated tokens; ``e2e_latency_ms`` under a fixed batch
is the time of the whole batch."""

SLO_BOUND_STATISTICS: Final = ("max_under_slo", "max_under_p99_slo")
STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99", "max", *SLO_BOUND_STATISTICS)
"""What of its distribution a figure is; the last two are the highest rate that still meets a latency limit, which
the row's notes give."""

OWN_TRUST: Final = "own"
TRUSTS: Final = ("A", "B", "B-", "C", OWN_TRUST)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured figure with the configuration it was measured in.

    Attributes:
        key: stable identifier; the same figure imported twice has the same key.
        source: title of the source.
        source_url: where it was read.
        as_of: date or version of the source.
        engine: canonical engine name (``vllm``, ``sglang``, ``tensorrt-llm`` or as published, lower case).
        engine_version: as published, empty when not stated.
        model: catalogue name of the model profile.
        weights: weight precision, one that the catalogue's model can be stored in.
        kv_cache: KV-cache precision; ``auto`` when not stated.
        sku: catalogue identifier of the accelerator.
        mig_profile: GPU instance profile name, empty for the whole device.
        devices: devices of the whole measured deployment; instances of the profile when there is one.
        tensor_parallel: ranks one set of attention heads is split over; ``None`` when not stated (best-of-search
            rows). A replica has ``tensor_parallel * attention_data_parallel * pipeline_parallel`` ranks.
        pipeline_parallel: stages; 1 when not stated.
        expert_parallel: expert-parallel ranks; 1 when off or not stated.
        attention_data_parallel: attention data-parallel ranks inside a replica; 1 when off.
        input_tokens: mean prompt length as achieved; under lengths drawn from a range, the mean of the range; ``None``
            when not stated.
        output_tokens: mean generated length as achieved, ``None`` when not stated.
        load_kind: one of :data:`LOAD_KINDS`.
        load_value: concurrency, batch or requests per second over the whole deployment; ``None`` for an offline maximum
            and for a rate that was searched for under a latency limit.
        metric: one of :data:`METRICS`.
        statistic: one of :data:`STATISTICS`; empty when not stated.
        value: the figure, over the whole deployment (never per device).
        trust: ``A`` audited, ``B`` and ``B-`` documented, ``C`` community, ``own`` for a fleet's own rows.
        flags: what to mind: ``disaggregated`` (prefill and decode on devices of their own; the parallelism is that of a
            decode worker), ``dp_attention``, ``neighbours_busy`` (the other instances of the GPU did other work),
            ``power_limited``, ``precision_inferred``, ``speculative_decoding`` ...
        own: true for rows a user imported, which outweigh the shipped ones.
    """

    key: str
    source: str
    source_url: str
    as_of: str
    engine: str
    engine_version: str
    model: str
    weights: str
    kv_cache: str
    sku: str
    mig_profile: str
    devices: int
    tensor_parallel: int | None
    pipeline_parallel: int
    expert_parallel: int
    attention_data_parallel: int
    input_tokens: float | None
    output_tokens: float | None
    load_kind: str
    load_value: float | None
    metric: str
    statistic: str
    value: float
    trust: str
    flags: tuple[str, ...]
    own: bool = False
