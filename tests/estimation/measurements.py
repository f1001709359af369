"""Made-up measurements: the step model's own answers under known coefficients, so that a fit can be checked."""

from __future__ import annotations

from dataclasses import replace

from capplan.estimation.coefficients import Coefficients
from capplan.estimation.measurement import Measurement
from capplan.estimation.observation import Observation, batches, observe, predict, settle
from capplan.hardware.accelerator import Accelerator
from capplan.modeling.config_reader import read_config
from capplan.modeling.costs import ModelCosts, model_costs
from tests.estimation.configs import LLAMA_3_1_8B, LLAMA_3_1_70B
from tests.hardware.devices import A100, H100

MODELS: dict[tuple[str, str], ModelCosts] = {
    ("llama-8b", "bf16"): model_costs(read_config(LLAMA_3_1_8B), "bf16"),
    ("llama-70b", "fp8"): model_costs(read_config(LLAMA_3_1_70B), "fp8"),
}


def measurement(
    model: str = "llama-8b",
    weights: str = "bf16",
    accelerator: Accelerator = H100,
    *,
    tensor_parallel: int | None = 1,
    concurrency: float | None = 16.0,
    metric: str = "tpot_ms",
    load_kind: str = "concurrency",
    statistic: str = "mean",
    value: float = 1.0,
    own: bool = False,
) -> Measurement:
    """One row with usual values for what a test does not care about."""
    return Measurement(
        key=f"{model}-{accelerator.sku}-{tensor_parallel}-{concurrency}-{metric}-{load_kind}",
        source="made up",
        source_url="",
        as_of="2026-01",
        engine="vllm",
        engine_version="0.19",
        model=model,
        weights=weights,
        kv_cache="auto",
        sku=accelerator.sku,
        mig_profile="",
        devices=tensor_parallel or 1,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=1,
        expert_parallel=1,
        attention_data_parallel=1,
        input_tokens=1_000.0,
        output_tokens=500.0,
        load_kind=load_kind,
        load_value=concurrency,
        metric=metric,
        statistic=statistic,
        value=value,
        trust="B",
        flags=(),
        own=own,
    )


def observed(row: Measurement, accelerator: Accelerator = H100) -> Observation:
    """The observation of a row that can be predicted."""
    observation = observe(row, MODELS[row.model, row.weights], accelerator)
    assert isinstance(observation, Observation), observation
    return observation


def as_if(truth: Coefficients) -> list[Observation]:
    """A grid of rows whose values are what the step model says under ``truth``."""
    rows = []
    for (model, weights), tensor_parallel in ((("llama-8b", "bf16"), 1), (("llama-70b", "fp8"), 4)):
        for accelerator in (H100, A100):
            if weights == "fp8" and accelerator is A100:
                continue
            for concurrency in (1.0, 4.0, 16.0, 64.0, 128.0):
                for metric in ("tpot_ms", "ttft_ms", "output_tokens_per_s"):
                    row = measurement(
                        model,
                        weights,
                        accelerator,
                        tensor_parallel=tensor_parallel,
                        concurrency=concurrency,
                        metric=metric,
                    )
                    rows.append(observed(row, accelerator))
    groups = batches(rows)
    settle(groups, truth)
    values = predict(groups, len(rows), truth)
    return [
        replace(row, measurement=replace(row.measurement, value=float(value)))
        for row, value in zip(rows, values, strict=True)
    ]
