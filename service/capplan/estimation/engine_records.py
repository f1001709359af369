"""What is asked of an inference engine, what it resolves to, and the rules its memory follows: values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from capplan.errors import InvalidInputError
from capplan.estimation.engine_runtime import runtime_of

ENGINE_FIELD = "constraints.engine"
"""Where a caller's engine settings stand in a request; errors name fields below it."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Inference engine and the settings a caller may pin; ``None`` means the engine's default for its version.

    The three memory fractions mean three different things, so each engine takes its own and refuses the others'.

    Attributes:
        name: ``vllm``, ``sglang`` or ``tensorrt-llm``; common spellings of them are taken too.
        version: ``major.minor`` (vLLM, TensorRT-LLM) or ``major.minor.patch`` (SGLang); ``None`` for the newest known.
        gpu_memory_utilization: vLLM: share of the device's *total* memory the engine may use.
        max_num_seqs: most sequences in one step (SGLang ``--max-running-requests``, TensorRT-LLM ``max_batch_size``).
        max_num_batched_tokens: token budget of one step (SGLang ``--chunked-prefill-size``, TensorRT-LLM
            ``max_num_tokens``).
        mem_fraction_static: SGLang: weights and pools over the memory free *before* the weights are loaded.
        free_gpu_memory_fraction: TensorRT-LLM: KV cache over what is free *after* weights and activations.
        enforce_eager: no captured graphs (SGLang ``--disable-cuda-graph``, TensorRT-LLM ``cuda_graph_config: null``).
    """

    name: str = "vllm"
    version: str | None = None
    gpu_memory_utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    mem_fraction_static: float | None = None
    free_gpu_memory_fraction: float | None = None
    enforce_eager: bool = False


class BudgetRule(StrEnum):
    """What an engine's memory fraction is a fraction of."""

    OF_TOTAL = "of_total"
    """vLLM: of the device's total memory; weights, activations and runtime are inside."""
    OF_FREE_BEFORE_LOAD = "of_free_before_load"
    """SGLang: of what is free before the weights are loaded; activations and graphs live in the rest."""
    OF_FREE_AFTER_LOAD = "of_free_after_load"
    """TensorRT-LLM: of what is free after weights and activations; the whole of it is the KV cache."""


class WindowRule(StrEnum):
    """Which windowed layers keep their window only; the others are charged the whole context."""

    NONE = "none"
    """None: SGLang and TensorRT-LLM by default, vLLM's V0 engine."""
    UNIFORM = "uniform"
    """Those of models whose every layer has the same window: vLLM 0.8 and 0.9."""
    ALL = "all"
    """All: vLLM with its hybrid KV cache manager."""


class StateRule(StrEnum):
    """Where an engine keeps recurrent state."""

    PAGES = "pages"
    """vLLM: in blocks of the KV pool; the attention block is grown to the size of a state."""
    POOL_SHARE = "pool_share"
    """SGLang: in a pool of its own, a fixed share of the memory."""
    SLOTS = "slots"
    """TensorRT-LLM: one slot per sequence of a step, reserved at start."""


@dataclass(frozen=True, slots=True)
class GraphRule:
    """Memory that captured graphs are taken to need, bytes; per-layer figures are for each captured size.

    Attributes:
        base_bytes: whatever is captured.
        layer_bytes: every layer, once.
        dense_bytes_per_size: one layer without experts or state, per captured size.
        expert_bytes_per_size: one layer with routed experts, per captured size.
        recurrent_bytes_per_size: one recurrent layer, per captured size.
    """

    base_bytes: int
    layer_bytes: int = 0
    dense_bytes_per_size: int = 0
    expert_bytes_per_size: int = 0
    recurrent_bytes_per_size: int = 0


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """How a range of versions of one engine accounts for memory.

    Attributes:
        budget: what the memory fraction is a fraction of.
        sampler_logit_copies: fp32 logit-sized buffers alive at once while the sampler is profiled at ``max_num_seqs``.
        forward_share: share of the layer's live activations that the engine really keeps at once.
        graphs: captured graphs.
        graphs_in_budget: whether they are subtracted from the budget (otherwise they live beside it).
        runtime_bytes: context and libraries of one rank without peers.
        peer_bytes: collective buffers added as soon as a replica has more than one rank.
        pcie_peer_bytes: the same where no fabric joins more than two devices.
        block_tokens: tokens of one KV block.
        windows: which windowed layers keep their window only.
        states: where recurrent state is kept.
        encoder_bytes: activations of a multimodal tower while the engine profiles it.
        mxfp4_width_multiple: kernels pad the width of mxfp4 experts on a rank to a multiple of this.
        state_blocks: blocks of each recurrent group that one request holds.
        state_blocks_bound_sequences: whether graphs are refused when the pool has fewer blocks than ``max_num_seqs``.
        tokens_from_concurrency: whether the printed token count is concurrency times the context, not blocks.
        start_checks_free: whether start is refused when less than the budget is free.
        caches_latents: whether multi-head latent attention caches its latent, not the keys and values of every head.
        reserves_answers: whether a request is let in only when the pool holds its whole answer too, so that none is
            ever put off again.
    """

    budget: BudgetRule
    sampler_logit_copies: float
    forward_share: float
    graphs: GraphRule
    graphs_in_budget: bool
    runtime_bytes: int
    peer_bytes: int
    pcie_peer_bytes: int
    block_tokens: int
    windows: WindowRule
    states: StateRule
    mxfp4_width_multiple: int
    encoder_bytes: int = 0
    state_blocks: int = 1
    state_blocks_bound_sequences: bool = False
    tokens_from_concurrency: bool = False
    start_checks_free: bool = True
    caches_latents: bool = True
    reserves_answers: bool = False


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings a replica is started with, all resolved.

    Attributes:
        name: engine.
        version: ``major.minor``, with the patch where the engine's rules turn on it.
        memory_fraction: the engine's memory fraction, of what ``memory.budget`` says.
        max_num_seqs: most sequences in one step.
        max_num_batched_tokens: token budget of one step.
        graph_sizes: how many step sizes are captured; 0 without graphs.
        multimodal_share: factor on the memory fraction for models with towers (SGLang's default only).
        memory: memory accounting of this version.
    """

    name: str
    version: str
    memory_fraction: float
    max_num_seqs: int
    max_num_batched_tokens: int
    graph_sizes: int
    memory: MemoryRule
    multimodal_share: float = 1.0

    @property
    def runtime(self) -> str:
        """The core that the version runs, see :func:`capplan.estimation.engine_runtime.runtime_of`."""
        return runtime_of(self.name, self.version)

    def _fraction_if(self, rule: BudgetRule) -> float | None:
        return self.memory_fraction if self.memory.budget is rule else None

    @property
    def gpu_memory_utilization(self) -> float | None:
        """VLLM's memory fraction; ``None`` for another engine."""
        return self._fraction_if(BudgetRule.OF_TOTAL)

    @property
    def mem_fraction_static(self) -> float | None:
        """SGLang's memory fraction; ``None`` for another engine."""
        return self._fraction_if(BudgetRule.OF_FREE_BEFORE_LOAD)

    @property
    def free_gpu_memory_fraction(self) -> float | None:
        """TensorRT-LLM's memory fraction; ``None`` for another engine."""
        return self._fraction_if(BudgetRule.OF_FREE_AFTER_LOAD)


Version = tuple[int, int, int]


def parse_version(text: str, example: str) -> Version:
    """Reads ``0.8``, ``v0.8.5.post1`` or ``1.0.0rc4`` as numbers; a missing patch counts as the newest of its minor.

    Raises:
        InvalidInputError: it is no version; ``example`` is shown.
    """
    numbers: list[int] = []
    for part in text.strip().removeprefix("v").split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))] if part.isascii() else ""
        if not digits or len(digits) > 5 or (len(numbers) < 2 and digits != part):
            break
        numbers.append(int(digits))
    if len(numbers) < 2:
        raise InvalidInputError.single(
            f"{ENGINE_FIELD}.version", f"{text!r} is not a version; expected major.minor such as {example!r}"
        )
    return numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else NEWEST_PATCH


NEWEST_PATCH = 99_999
"""Stands for the newest patch of a minor version."""


def capture_sizes(largest: int) -> int:
    """How many step sizes vLLM captures up to ``largest``: 1, 2, 4, then by 8 below 256, then by 16.

    Source: vLLM 0.9.2 to 0.33, ``vllm/config``.
    """
    small = [size for size in (1, 2, 4) if size <= largest]
    return len(small) + len(range(8, min(largest, 255) + 1, 8)) + len(range(256, largest + 1, 16))
