"""A published or own measurement of a serving deployment, as a plain value."""

from __future__ import annotations

from dataclasses import dataclass


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
        devices: devices of the whole measured deployment.
        tensor_parallel: ranks per replica; ``None`` when not stated (best-of-search rows).
        pipeline_parallel: stages; 1 when not stated.
        expert_parallel: expert-parallel ranks; 1 when off or not stated.
        attention_data_parallel: attention data-parallel ranks inside a replica; 1 when off.
        input_tokens: mean prompt length as achieved, ``None`` when not stated.
        output_tokens: mean generated length as achieved, ``None`` when not stated.
        load_kind: ``concurrency``, ``offline_max``, ``batch``, ``qps`` ...
        load_value: concurrency, batch or rate over the whole deployment; ``None`` for offline maximum.
        metric: ``tpot_ms``, ``itl_ms``, ``ttft_ms``, ``output_tokens_per_s``, ``total_tokens_per_s`` ...
        statistic: ``mean``, ``p50``, ``p99`` ...; empty when not stated.
        value: the figure, over the whole deployment (never per device).
        trust: ``A`` audited, ``B`` and ``B-`` documented, ``C`` community, ``own`` for a fleet's own rows.
        flags: what to mind (``speculative_decoding`` ...).
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
