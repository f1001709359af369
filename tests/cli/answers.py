"""Answers made up for the tests: every figure is chosen here, none comes from the planner."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from capplan.errors import NotFoundError
from capplan.units import GIB
from capplan.v1 import catalog_pb2, catalog_service_pb2, model_pb2, placement_pb2, planner_service_pb2

# 80 GiB at 90 % is a budget of 72; 60 + 2 + 1 + 1 leave 8 for the pool.
DEVICE_GIB, BUDGET_GIB = 80, 72
PARTS_GIB = {"weights": 60, "activations": 2, "graphs": 1, "runtime": 1, "KV pool": 8}


def memory() -> placement_pb2.MemoryBreakdown:
    return placement_pb2.MemoryBreakdown(
        device_bytes=DEVICE_GIB * GIB,
        budget_bytes=BUDGET_GIB * GIB,
        weight_bytes=PARTS_GIB["weights"] * GIB,
        activation_bytes=PARTS_GIB["activations"] * GIB,
        graph_bytes=PARTS_GIB["graphs"] * GIB,
        runtime_bytes=PARTS_GIB["runtime"] * GIB,
        kv_pool_bytes=PARTS_GIB["KV pool"] * GIB,
        full_context_request_bytes=2 * GIB,
        kv_pool_tokens=65_536,
        max_concurrent_requests=64.5,
        longest_context_tokens=131_072,
    )


def performance(output_tokens_per_s: float, itl_ms: float) -> placement_pb2.ReplicaPerformance:
    return placement_pb2.ReplicaPerformance(
        batch=32,
        output_tokens_per_s=placement_pb2.Estimate(value=output_tokens_per_s),
        requests_per_s=placement_pb2.Estimate(value=output_tokens_per_s / 250),
        itl_ms=placement_pb2.Estimate(value=itl_ms, lower=itl_ms - 1, upper=itl_ms + 1),
        ttft_ms=placement_pb2.Estimate(value=123.0),
        ttft_unloaded_ms=placement_pb2.Estimate(value=77.0),
        e2e_ms=placement_pb2.Estimate(value=4567.0),
        prefill_step_share=0.25,
        provenance=placement_pb2.PROVENANCE_ANALYTIC,
        bottleneck="memory_bandwidth",
        step_parts=[
            placement_pb2.StepPart(group="routed_expert", time_ms=15.0, limited_by="memory_bandwidth"),
            placement_pb2.StepPart(group="all_reduce", time_ms=5.0, limited_by="interconnect"),
        ],
    )


def placement(rank: int, accelerator: str = "rtx-pro-6000-workstation-96gb") -> placement_pb2.Placement:
    """A placement on whole devices: three replicas of 2,500 tokens/s each."""
    return placement_pb2.Placement(
        rank=rank,
        accelerator=f"accelerators/{accelerator}",
        product_name="Product One",
        device_count=12,
        replica_count=3,
        parallelism=placement_pb2.Parallelism(
            tensor_parallel=4, pipeline_parallel=1, expert_parallel=1, attention_data_parallel=1
        ),
        engine=placement_pb2.EngineSettings(
            name="vllm",
            version="0.33",
            gpu_memory_utilization=0.9,
            max_num_seqs=256,
            max_num_batched_tokens=8192,
            max_model_len_tokens=32_768,
            kv_cache="fp8",
        ),
        memory=memory(),
        capacity=performance(2_500.0, 41.5),
        operating_point=performance(2_000.0, 31.5),
        utilization=0.8,
        binding_constraint="itl_limit",
        cost_usd_per_h=30.12,
        cost_usd_per_million_output_tokens=1.39,
        price_source="a price list",
        power_w=4321.0,
        resource_request="nvidia.com/gpu: 4",
        objective_value=30.12,
        explanation=["This is the first sentence.", "This is the second sentence."],
    )


def instance(profile: str, profile_id: int, start: int, size: int, *, used: bool = True) -> placement_pb2.MigInstance:
    return placement_pb2.MigInstance(profile=profile, profile_id=profile_id, start=start, size=size, used=used)


def sliced_placement() -> placement_pb2.Placement:
    """Two GPUs with one 3g and three 1g each (starts as in NVIDIA's MIG user guide), and one GPU with a 1g alone."""
    answer = placement(1, "a100-sxm4-80gb")
    answer.device_count = 3
    answer.replica_count = 7
    answer.mig_layout.CopyFrom(
        placement_pb2.MigLayout(
            board="a100-80gb",
            profile="1g.10gb",
            profile_id=19,
            usable_bytes=9 * GIB,
            gpus=[
                placement_pb2.GpuLayout(
                    gpu_count=2,
                    instances=[
                        instance("1g.10gb", 19, 0, 1),
                        instance("1g.10gb", 19, 1, 1),
                        instance("1g.10gb", 19, 2, 1),
                        instance("3g.40gb", 9, 4, 4, used=False),
                    ],
                ),
                placement_pb2.GpuLayout(
                    gpu_count=1, instances=[instance("1g.10gb", 19, 6, 1)], leftover=["4g.40gb x 1", "1g.10gb x 6"]
                ),
            ],
            resource_name_mixed="nvidia.com/mig-1g.10gb",
            resource_name_single="nvidia.com/gpu",
            needs_reset=True,
            confidence="measured",
        )
    )
    return answer


def rejections() -> list[placement_pb2.Rejection]:
    """Five that miss by 5, 1, 4, 2 and 3 GiB, and one for which an amount has no meaning."""
    missing = [
        placement_pb2.Rejection(
            accelerator=f"accelerators/device-{gib}",
            configuration="tensor parallel 8",
            reason="WEIGHTS_DO_NOT_FIT",
            description="too large",
            shortfall=-gib * GIB,
            shortfall_unit="bytes_per_device",
        )
        for gib in (5, 1, 4, 2, 3)
    ]
    return [
        *missing,
        placement_pb2.Rejection(
            accelerator="accelerators/odd-one", reason="ENGINE_UNSUPPORTED", description="nothing runs there"
        ),
    ]


def plan_answer(*placements: placement_pb2.Placement) -> planner_service_pb2.PlanPlacementResponse:
    return planner_service_pb2.PlanPlacementResponse(
        placements=placements,
        rejections=rejections(),
        relaxations=[]
        if placements
        else [
            placement_pb2.Relaxation(
                field="workload.max_context_tokens", description="allow a shorter context", value="16384"
            )
        ],
        assumptions=["Load is divided evenly."],
        model="org/model-70b",
        weights="fp8",
        kv_cache="fp8",
        catalog_revision=7,
        evaluated_candidate_count=1234,
    )


def estimate_answer(*, starts: bool = True) -> planner_service_pb2.EstimateDeploymentResponse:
    answer = planner_service_pb2.EstimateDeploymentResponse(
        starts=starts,
        memory=memory(),
        model="org/model-70b",
        weights="fp8",
        accelerator="accelerators/h100-sxm-80gb",
        catalog_revision=7,
        engine=placement(1).engine,
        assumptions=["Load is divided evenly."],
    )
    if starts:
        answer.performance.CopyFrom(performance(2_500.0, 41.5))
        answer.total_output_tokens_per_s.value = 5_000.0
    else:
        answer.faults.add(
            reason="CONTEXT_DOES_NOT_FIT",
            description="one request needs more",
            shortfall=-1.5 * GIB,
            shortfall_unit="bytes_per_device",
        )
    return answer


def model_answer() -> planner_service_pb2.DescribeModelResponse:
    return planner_service_pb2.DescribeModelResponse(
        model=model_pb2.ModelDescription(
            name="org/model-70b",
            family="llama",
            layer_count=80,
            hidden_size=8192,
            vocabulary_size=128_256,
            max_context_tokens=131_072,
            layer_summary=["80 x grouped-query attention"],
            total_parameters=3_000_000_000,
            active_parameters=1_000_000_000,
            parameter_groups=[
                model_pb2.ParameterGroup(
                    component="embedding", total_parameters=750_000_000, active_parameters=750_000_000
                ),
                model_pb2.ParameterGroup(
                    component="routed_expert", total_parameters=2_250_000_000, active_parameters=250_000_000
                ),
            ],
            multi_token_prediction_parameters=90_000_000,
            native_weights="bf16",
            weight_bytes=6_000_000_000,
            weights="bf16",
            precisions=[
                model_pb2.PrecisionSize(weights="bf16", weight_bytes=6_000_000_000, effective_bits_per_parameter=16.0),
                model_pb2.PrecisionSize(weights="mxfp4", refusal="this model has no such checkpoint"),
            ],
            kv_cache="bf16",
            kv_cache_bytes_per_token=2048.0,
            kv_cache_bytes_per_token_beyond_window=1024.0,
            state_bytes_per_sequence=4096,
            flop_per_token=2e9,
            attention_flop_per_context_token=3e6,
            decode_intensity_flop_per_byte=1.5,
            attention_layers=[
                model_pb2.AttentionLayers(
                    kind="windowed", layer_count=2, cache_bytes_per_token_per_layer=512.0, window_tokens=1024
                ),
                model_pb2.AttentionLayers(kind="full", layer_count=2, cache_bytes_per_token_per_layer=512.0),
            ],
            sequences=[
                model_pb2.SequenceCosts(
                    asked_context_tokens=asked,
                    context_tokens=min(asked, 65_536),
                    kv_cache_bytes=1_000_000,
                    state_bytes=4096,
                    total_bytes=1_004_096,
                    decode_flop_per_token=3e9,
                    prefill_flop_per_token=2.5e9,
                )
                for asked in (1024, 8192, 131_072)
            ],
            decode_intensities=[
                model_pb2.DecodeIntensity(
                    batch_size=batch, weight_flop_per_byte=batch, step_flop_per_byte=batch / 2, context_tokens=8192
                )
                for batch in (1, 32, 256)
            ],
            tensor_parallel_degrees=[
                model_pb2.TensorParallelDegree(tensor_parallel=1, legal=True, legal_with_expert_parallel=True),
                model_pb2.TensorParallelDegree(
                    tensor_parallel=2,
                    faults=[model_pb2.SplitFault(reason="FP8_BLOCK_WIDTH", description="experts do not divide")],
                    legal_with_expert_parallel=True,
                ),
            ],
            full_context_tokens=65_536,
            accelerators=[
                model_pb2.AcceleratorFit(
                    accelerator="accelerators/h100-sxm-80gb",
                    arithmetic="bf16",
                    ridge_flop_per_byte=295.3,
                    ridge_batch_size=200,
                    decode_bounds=[
                        model_pb2.DecodeBound(
                            batch_size=1, matrix_products="memory_bandwidth", step="memory_bandwidth"
                        ),
                        model_pb2.DecodeBound(
                            batch_size=32, matrix_products="memory_bandwidth", step="memory_bandwidth"
                        ),
                        model_pb2.DecodeBound(batch_size=256, matrix_products="compute", step="memory_bandwidth"),
                    ],
                    longest_context_tokens=12_345,
                    full_context_tensor_parallel=2,
                ),
                model_pb2.AcceleratorFit(
                    accelerator="accelerators/tpu-v5e", reason="ENGINE_UNSUPPORTED", description="not modelled"
                ),
            ],
            training=[
                model_pb2.TrainingMemory(
                    precision="bf16",
                    optimizer="adamw",
                    weight_bytes=6_000_000_000,
                    gradient_bytes=6_000_000_000,
                    master_bytes=12_000_000_000,
                    optimizer_bytes=24_000_000_000,
                    total_bytes=48_000_000_000,
                    bytes_per_parameter=16.0,
                    activations=[
                        model_pb2.ActivationMemory(
                            recomputation="full", activation_bytes=2_000_000_000, total_bytes=50_000_000_000
                        )
                    ],
                )
            ],
        ),
        catalog_revision=7,
    )


class FakeBackend:
    """Answers what it was told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.plan: Any = plan_answer(placement(1), placement(2))
        self.estimate: Any = estimate_answer()
        self.models: dict[str, Any] = {}
        self.connection: Any = None
        self.requests: list[Any] = []

    @contextmanager
    def connect(self, connection):
        self.connection = connection
        yield self

    def plan_placement(self, request):
        return self._answer(request, self.plan)

    def estimate_deployment(self, request):
        return self._answer(request, self.estimate)

    def describe_model(self, request):
        answer = self.models.get(request.model.name)
        return self._answer(request, answer if answer is not None else model_answer())

    def get_mig_profile(self, request):
        self.requests.append(request)
        profile = catalog_pb2.MigProfile(name=request.name, grid_unit_count=8, profile="1g.10gb", profile_id=19)
        return catalog_service_pb2.GetMigProfileResponse(mig_profile=profile)

    def get_accelerator(self, request):
        self.requests.append(request)
        raise NotFoundError("accelerator", request.name, ("h100-sxm-80gb", "h200-sxm-141gb"))

    def list_accelerators(self, request):
        """Three pages of one row each; the token is the number of the next row."""
        self.requests.append(type(request).FromString(request.SerializeToString()))
        number = int(request.page_token or 0)
        return catalog_service_pb2.ListAcceleratorsResponse(
            accelerators=[catalog_pb2.Accelerator(name=f"accelerators/device-{number}", memory_bytes=80 << 30)],
            next_page_token=str(number + 1) if number < 2 else "",
        )

    def _answer(self, request, answer):
        self.requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer
