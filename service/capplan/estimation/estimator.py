"""The estimator as an interface: ways to run a model in, figures or refusals out.

What capplan answers comes from its own step model. Another source, such as a table of measured operators or a model of
your own, stands beside it by having what :class:`Estimator` asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from capplan.estimation.coefficients import UNFITTED, Coefficients
from capplan.estimation.estimate import Figure, Provenance, ReplicaEstimate, estimate_replicas
from capplan.estimation.replica import Replica
from capplan.estimation.steady_state import Request, rates_and_stay
from capplan.modeling.costs import ModelCosts
from capplan.units import MS_PER_S


@dataclass(frozen=True, slots=True)
class Refusal:
    """No figures for one replica.

    Attributes:
        reason: why, as a sentence for people.
    """

    reason: str


class Estimator(Protocol):
    """A source of estimates.

    To write one, give a class a ``name`` and an ``estimate`` method; it need not inherit from this one. To be asked by
    a server it is installed as an entry point of the group ``capplan.estimators``, see ``docs/estimators.md``.

    An estimator answers from its arguments alone: the same arguments give the same answer for as long as the process
    runs, since answers are cached. It is called from several threads at once, and a caller waits for it.
    """

    @property
    def name(self) -> str:
        """What it is asked by; the name of its entry point."""
        ...

    def estimate(
        self, model: ModelCosts, replicas: Sequence[Replica], request: Request, batches: Sequence[float]
    ) -> Sequence[ReplicaEstimate | Refusal]:
        """One answer for each replica, in order.

        Args:
            model: the model in the formats of its weights and KV cache: ``model.model`` is its name,
                ``model.weight_precision`` and ``model.kv_precision`` are the formats.
            replicas: C ways to run one replica of it, each of which starts. Of a replica,
                ``replica.device.accelerator.sku`` is the device, ``replica.device.profile`` its MIG profile or ``None``
                for the whole device, ``replica.parallelism`` the spread over devices and ``replica.settings`` the
                engine with its version, sequences and tokens of a step.
            request: mean lengths in tokens; ``request.prefill_tokens`` of the prompt are computed, the rest is cached.
            batches: C mean numbers of sequences that decode at once in each replica, above zero; below one the replica
                idles in between.

        Returns:
            C answers. What cannot be estimated, such as a device that was never measured, is a :class:`Refusal`, never
            a guess. Every figure is positive and finite and is about the batch asked, which the estimate repeats.
            :func:`from_latencies` makes an estimate of latencies alone.
        """
        ...


@dataclass(frozen=True, slots=True)
class StepModel:
    """Capplan's own estimator: the step model with one set of coefficients.

    Attributes:
        name: what it is asked by.
        coefficients: coefficients of the step model.
    """

    name: str
    coefficients: Coefficients = UNFITTED

    def estimate(
        self, model: ModelCosts, replicas: Sequence[Replica], request: Request, batches: Sequence[float]
    ) -> tuple[ReplicaEstimate, ...]:
        """One estimate for each replica; it refuses none."""
        return estimate_replicas(model, replicas, request, batches, self.coefficients)


ANALYTIC: Final = StepModel("analytic")
"""The step model before any fit: datasheet rates with general efficiencies."""


def from_latencies(
    request: Request,
    batch: float,
    *,
    itl_ms: float,
    ttft_ms: float,
    ttft_unloaded_ms: float,
    provenance: Provenance,
    bottleneck: str = "",
) -> ReplicaEstimate:
    """The estimate that latencies imply at a steady load, for an estimator that knows no more than those.

    Rates and stay follow by :func:`~capplan.estimation.steady_state.rates_and_stay`, and by Little's law as many
    requests are in flight as arrive during a stay. Shares and parts of the step are left unsaid.

    Args:
        request: mean lengths.
        batch: decoding sequences.
        itl_ms: mean inter-token latency.
        ttft_ms: mean time to first token at this load.
        ttft_unloaded_ms: time to first token on an idle replica.
        provenance: where the latencies come from.
        bottleneck: what limits the step, e.g. ``memory_bandwidth``; empty when not known.
    """
    output_tokens_per_s, requests_per_s, e2e_s = rates_and_stay(
        request.output_tokens, batch, itl_ms / MS_PER_S, ttft_ms / MS_PER_S
    )
    return ReplicaEstimate(
        batch=batch,
        output_tokens_per_s=Figure(output_tokens_per_s),
        requests_per_s=Figure(requests_per_s),
        requests_in_flight=requests_per_s * e2e_s,
        itl_ms=Figure(itl_ms),
        ttft_ms=Figure(ttft_ms),
        ttft_unloaded_ms=Figure(ttft_unloaded_ms),
        e2e_ms=Figure(e2e_s * MS_PER_S),
        prefill_step_share=0.0,
        provenance=provenance,
        bottleneck=bottleneck,
        parts=(),
    )
