"""An estimator asked for its opinion: it may be anybody's code, so nothing passes that is no answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from capplan.estimation.estimate import Figure, Provenance, ReplicaEstimate, StepPart
from capplan.estimation.estimator import Estimator, Refusal
from capplan.estimation.replica import Replica
from capplan.estimation.steady_state import Request
from capplan.modeling.costs import ModelCosts

_MAX_REASON_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one estimator says of one replica.

    Attributes:
        estimator: its name.
        answer: figures, or why there are none.
    """

    estimator: str
    answer: ReplicaEstimate | Refusal


def ask(
    estimator: Estimator,
    name: str,
    model: ModelCosts,
    replicas: Sequence[Replica],
    request: Request,
    batches: Sequence[float],
) -> tuple[Opinion, ...]:
    """Asks an estimator that may be anybody's: what it does wrong becomes a refusal that names it.

    Args:
        estimator: whom to ask.
        name: its name, for the answers.
        model: see :meth:`Estimator.estimate`.
        replicas: C ways to run the model.
        request: mean lengths.
        batches: C batches.
    """
    try:
        answers = tuple(estimator.estimate(model, tuple(replicas), request, tuple(batches)))
        if len(answers) != len(replicas):
            raise ValueError(f"it gave {len(answers)} answers about {len(replicas)} replicas")
    except (Exception, SystemExit) as error:  # whatever another's code does, it must not end the call
        refusal = Refusal(_shortened(f"the estimator {name} failed: {failure_text(error)}"))
        return tuple(Opinion(name, refusal) for _ in replicas)
    return tuple(Opinion(name, _checked(name, answer, batch)) for answer, batch in zip(answers, batches, strict=True))


def failure_text(error: BaseException) -> str:
    """An exception of another's code in words that can be sent, also when it cannot say them itself."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return _shortened(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _shortened(text: str) -> str:
    """A text that can be sent: no half characters, no more than people read."""
    whole = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return whole if len(whole) <= _MAX_REASON_CHARACTERS else whole[: _MAX_REASON_CHARACTERS - 1] + "…"


def _checked(name: str, answer: object, batch: float) -> ReplicaEstimate | Refusal:
    """The answer, or a refusal when it is no estimate of that batch."""
    if isinstance(answer, Refusal):
        reason: object = answer.reason
        if isinstance(reason, str) and reason.strip():
            return Refusal(_shortened(reason))
        return Refusal(f"the estimator {name} gave no figures and no reason")
    if not isinstance(answer, ReplicaEstimate):
        return Refusal(
            f"the estimator {name} answered with a {type(answer).__name__}, not a ReplicaEstimate or Refusal"
        )
    try:
        fault = _fault(answer, batch)
    except (Exception, SystemExit) as error:
        fault = failure_text(error)
    return answer if fault is None else Refusal(_shortened(f"the estimator {name} gave no valid figures: {fault}"))


_FIGURES: Final = ("output_tokens_per_s", "requests_per_s", "itl_ms", "ttft_ms", "ttft_unloaded_ms", "e2e_ms")


def _fault(estimate: Any, batch: float) -> str | None:
    """What is wrong with an estimate, if anything; another's code may have put anything into its fields."""
    for field in _FIGURES:
        figure = getattr(estimate, field)
        if not isinstance(figure, Figure):
            return f"{field} is a {type(figure).__name__}, not a Figure"
        if not _is_number(figure.value) or figure.value <= 0:
            return f"{field} is {figure.value!r}, not a positive number"
        ends = (figure.lower, figure.upper)
        if ends != (None, None) and not (
            _is_number(ends[0]) and _is_number(ends[1]) and 0 <= ends[0] <= figure.value <= ends[1]
        ):
            return f"the interval of {field} runs from {ends[0]!r} to {ends[1]!r} around {figure.value!r}"
    if not _is_number(estimate.batch) or not math.isclose(estimate.batch, batch, rel_tol=1e-6):
        return f"they are about a batch of {estimate.batch!r}, asked was {batch!r}"
    if not _is_number(estimate.requests_in_flight) or estimate.requests_in_flight < 0:
        return f"requests_in_flight is {estimate.requests_in_flight!r}, not a number from 0"
    share = estimate.prefill_step_share
    if not _is_number(share) or not 0 <= share <= 1:
        return f"prefill_step_share is {share!r}, not a number from 0 to 1"
    if not isinstance(estimate.provenance, Provenance):
        return f"provenance is {estimate.provenance!r}, not a Provenance"
    distance = estimate.distance
    if distance is not None and (not _is_number(distance) or distance < 0):
        return f"distance is {distance!r}, not a number from 0"
    for field in ("bottleneck", "engine_versions"):
        if not _is_text(getattr(estimate, field)):
            return f"{field} is no text of at most {_MAX_REASON_CHARACTERS} characters"
    for part in estimate.parts:
        if not (isinstance(part, StepPart) and _is_number(part.time_ms) and part.time_ms >= 0):
            return f"{part!r} is no part of a step"
        if not (_is_text(part.group) and _is_text(part.limited_by)):
            return "a part of the step has no name or limit that is a text"
    return None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and _shortened(value) == value
