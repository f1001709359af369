"""``DescribeModel`` over a socket: every part of the anatomy, against arithmetic and the server's own other answers."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from capplan.v1 import model_pb2, planner_service_pb2
from tests.modeling.published import DEEPSEEK_V3
from tests.server.catalogue import CONFIG, CONFIG_JSON, KV_BYTES_PER_TOKEN, MODEL_PARAMETERS
from tests.server.requests import describe_request, estimate_request
from tests.server.running_server import CALL_TIMEOUT_S, RunningServer

MIXTURE = CONFIG | {
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
    "max_position_embeddings": 32768,
}
EXPERTS = 32 * 8 * 3 * 4096 * 14336


def described(server: RunningServer, config: dict | None = None, **training: Any) -> model_pb2.ModelDescription:
    request = describe_request()
    if config is not None:
        request.model.config_json = json.dumps(config)
    if training:
        request.training.CopyFrom(model_pb2.TrainingSelection(**training))
    return server.planner.DescribeModel(request, timeout=CALL_TIMEOUT_S).model


def faults(server: RunningServer, **training: Any) -> set[str]:
    """Fields that a training question is refused for."""
    with pytest.raises(grpc.RpcError) as refusal:
        described(server, **training)
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return {part.split(":")[0] for part in refusal.value.details().split("; ") if part.startswith("training")}


def test_parameters_come_by_part_total_and_active(server: RunningServer) -> None:
    model = described(server, MIXTURE)
    experts = next(group for group in model.parameter_groups if group.component == "routed_expert")
    assert experts.total_parameters == EXPERTS
    assert experts.active_parameters == EXPERTS // 4
    assert sum(group.total_parameters for group in model.parameter_groups) == model.total_parameters
    assert sum(group.active_parameters for group in model.parameter_groups) == model.active_parameters
    assert model.active_parameters == model.total_parameters - EXPERTS * 3 // 4


def test_weights_are_those_of_the_published_precision_whatever_is_asked(server: RunningServer) -> None:
    request = describe_request()
    request.precisions.append("fp8")
    model = server.planner.DescribeModel(request, timeout=CALL_TIMEOUT_S).model
    assert (model.native_weights, model.weight_bytes) == ("bf16", 2 * MODEL_PARAMETERS)
    assert model.weights == "fp8"
    # Figures of steps and accelerators are for the asked one: about two FLOP a byte instead of one.
    assert model.decode_intensities[0].weight_flop_per_byte > 1.8


def test_a_checkpoint_stored_in_fp32_still_caches_in_16_bit(server: RunningServer) -> None:
    model = described(server, CONFIG | {"torch_dtype": "float32"})
    assert model.native_weights == "fp32"
    assert model.kv_cache_bytes_per_token == KV_BYTES_PER_TOKEN


def test_multi_token_prediction_is_counted_apart(server: RunningServer) -> None:
    assert described(server).multi_token_prediction_parameters == 0
    model = described(server, DEEPSEEK_V3)
    # The published files hold 684,489,845,504 values, 15,104 of them router biases, which are buffers.
    assert model.total_parameters == 671_026_404_352
    assert model.multi_token_prediction_parameters == 684_489_845_504 - 15_104 - 671_026_404_352


def test_the_cache_comes_by_layer_kind(server: RunningServer) -> None:
    model = described(server, CONFIG | {"model_type": "mistral", "sliding_window": 4096})
    (layers,) = model.attention_layers
    assert (layers.kind, layers.layer_count, layers.window_tokens, layers.latent) == ("windowed", 32, 4096, False)
    assert layers.cache_bytes_per_token_per_layer == KV_BYTES_PER_TOKEN / 32
    assert [sequence.kv_cache_bytes for sequence in model.sequences] == [
        KV_BYTES_PER_TOKEN * 1024,
        KV_BYTES_PER_TOKEN * 4096,
        KV_BYTES_PER_TOKEN * 4096,
    ]


def test_sequences_are_capped_at_the_models_context_and_say_so(server: RunningServer) -> None:
    sequences = described(server, MIXTURE).sequences
    assert [(s.asked_context_tokens, s.context_tokens) for s in sequences] == [
        (1024, 1024),
        (8192, 8192),
        (131_072, 32_768),
    ]
    for sequence in sequences:
        assert sequence.kv_cache_bytes == KV_BYTES_PER_TOKEN * sequence.context_tokens
        assert sequence.total_bytes == sequence.kv_cache_bytes + sequence.state_bytes


def test_flop_of_decode_and_prefill(server: RunningServer) -> None:
    model = described(server)
    head, norms = 128_256 * 4096, 65 * 4096
    multiplied = MODEL_PARAMETERS - head - norms
    for sequence in model.sequences:
        tokens = sequence.context_tokens
        attention = 32 * 4 * 32 * 128 * tokens
        assert sequence.decode_flop_per_token == 2 * multiplied + attention
        prompt = 2 * (multiplied - head) + 2 * head / tokens + attention / 2
        assert sequence.prefill_flop_per_token == pytest.approx(prompt, rel=1e-12)


def test_an_encoder_has_no_decode_steps(server: RunningServer) -> None:
    bert = {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
    }
    model = described(server, bert)
    assert not model.decode_intensities
    assert not any(fit.decode_bounds or fit.ridge_batch_size for fit in model.accelerators)
    assert {sequence.decode_flop_per_token for sequence in model.sequences} == {0.0}
    assert all(sequence.prefill_flop_per_token > 0 for sequence in model.sequences)


def test_each_degree_is_legal_or_says_why(server: RunningServer) -> None:
    degrees = described(server).tensor_parallel_degrees
    assert [degree.tensor_parallel for degree in degrees] == list(range(1, 17))
    # 32 heads, 8 key/value heads, a width of 14,336.
    assert [degree.tensor_parallel for degree in degrees if degree.legal] == [1, 2, 4, 8, 16]
    for degree in degrees:
        assert degree.legal == (not degree.faults)
        assert all(fault.reason and fault.description for fault in degree.faults)
        assert not degree.legal_with_expert_parallel


def test_expert_parallelism_makes_more_degrees_legal(server: RunningServer) -> None:
    # Experts 11 x 128 wide in fp8 blocks: 2 ranks get 704 columns, no multiple of 128; 8 experts over 2, 4, 8 do.
    block = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    config = MIXTURE | {"intermediate_size": 1408, "quantization_config": block}
    degrees = described(server, config).tensor_parallel_degrees
    assert [degree.tensor_parallel for degree in degrees if degree.legal] == [1]
    assert [degree.tensor_parallel for degree in degrees if degree.legal_with_expert_parallel] == [1, 2, 4, 8]
    assert {fault.reason for fault in degrees[1].faults} == {"FP8_BLOCK_WIDTH"}
    assert "EXPERTS_NOT_DIVISIBLE" in {fault.reason for fault in degrees[15].expert_parallel_faults}


def test_every_accelerator_of_the_catalogue_is_there(server: RunningServer) -> None:
    model = described(server)
    names = [fit.accelerator for fit in model.accelerators]
    assert names == sorted(names)
    assert len(names) == len(server.application.messages.accelerators)
    for fit in model.accelerators:
        assert bool(fit.full_context_tensor_parallel) == (not fit.reason) == (not fit.description)
        assert 0 <= fit.longest_context_tokens <= model.full_context_tokens == 131_072
        if fit.full_context_tensor_parallel == 1:
            assert fit.longest_context_tokens == model.full_context_tokens
        for bound in fit.decode_bounds:
            crossed = bound.batch_size >= fit.ridge_batch_size
            assert bound.matrix_products == ("compute" if crossed else "memory_bandwidth")


def test_an_h100_bends_where_its_data_sheet_says(server: RunningServer) -> None:
    h100 = next(fit for fit in described(server).accelerators if fit.accelerator == "accelerators/h100-sxm-80gb")
    assert h100.arithmetic == "bf16"
    assert h100.ridge_flop_per_byte == pytest.approx(989.4e12 / 3.35e12, rel=1e-3)
    # One FLOP for each byte of bf16 and sequence; norms are read beside.
    assert h100.ridge_batch_size == 296
    assert [bound.matrix_products for bound in h100.decode_bounds] == ["memory_bandwidth"] * 3


@pytest.mark.parametrize("accelerator", ["l4-24gb", "rtx-5090-32gb", "a30-24gb", "h100-sxm-80gb"])
def test_what_an_accelerator_holds_is_what_an_estimate_says(server: RunningServer, accelerator: str) -> None:
    fit = next(f for f in described(server).accelerators if f.accelerator == f"accelerators/{accelerator}")

    def estimate(ranks: int, tokens: int) -> planner_service_pb2.EstimateDeploymentResponse:
        request = estimate_request()
        request.model.Clear()
        request.model.config_json = CONFIG_JSON
        request.workload.max_context_tokens = tokens
        request.deployment.accelerator = accelerator
        request.deployment.tensor_parallel = ranks
        return server.planner.EstimateDeployment(request, timeout=CALL_TIMEOUT_S)

    memory = estimate(1, 131_072).memory
    assert fit.longest_context_tokens == memory.longest_context_tokens
    # Degrees that do not divide the model do not start either.
    starts = [ranks for ranks in range(1, 17) if estimate(ranks, 131_072).starts]
    assert fit.full_context_tensor_parallel == (starts[0] if starts else 0)


def test_training_takes_16_bytes_for_each_parameter(server: RunningServer) -> None:
    mixed, full = described(server).training
    assert (mixed.precision, full.precision, mixed.optimizer) == ("bf16", "fp32", "adamw")
    assert mixed.total_bytes == full.total_bytes == 16 * MODEL_PARAMETERS
    assert mixed.bytes_per_parameter == 16
    assert mixed.master_bytes == 4 * MODEL_PARAMETERS
    assert not mixed.activations
    assert not mixed.activation_refusal


def test_training_with_a_batch_counts_activations(server: RunningServer) -> None:
    mixed, _ = described(server, batch_size=2, sequence_length_tokens=4096, optimizer="adamw-8bit").training
    assert mixed.optimizer == "adamw-8bit"
    by_scope = {memory.recomputation: memory for memory in mixed.activations}
    outside = 5 * 4096 + 4 * 128_256
    assert by_scope["full"].activation_bytes == 2 * 4096 * (outside + 32 * 2 * 4096)
    layer = 10 * 4096 + 2 * (2 * 4096 + 2 * 1024) + 6 * 14336
    assert by_scope["selective"].activation_bytes == 2 * 4096 * (outside + 32 * layer)
    assert by_scope["none"].activation_bytes == 2 * 4096 * (outside + 32 * (layer + 5 * 32 * 4096))
    for memory in mixed.activations:
        assert memory.total_bytes == mixed.total_bytes + memory.activation_bytes


def test_activations_that_are_not_counted_are_said_so(server: RunningServer) -> None:
    config = {
        "model_type": "mamba2",
        "hidden_size": 512,
        "num_hidden_layers": 4,
        "num_heads": 16,
        "head_dim": 64,
        "n_groups": 1,
        "state_size": 128,
        "conv_kernel": 4,
        "expand": 2,
        "vocab_size": 1000,
    }
    mixed, _ = described(server, config, batch_size=1, sequence_length_tokens=128).training
    assert not mixed.activations
    assert "this model has" in mixed.activation_refusal
    assert mixed.total_bytes > 0


def test_a_batch_and_a_length_go_together(server: RunningServer) -> None:
    assert faults(server, batch_size=1) == {"training.sequence_length_tokens"}
    assert faults(server, sequence_length_tokens=1) == {"training.batch_size"}
    assert faults(server, batch_size=-1, sequence_length_tokens=1) == {"training.batch_size"}
    assert faults(server, optimizer="sgd") == {"training.optimizer"}


def test_activations_beyond_64_bits_are_refused(server: RunningServer) -> None:
    assert faults(server, batch_size=10**6, sequence_length_tokens=10**8) == {"training"}
