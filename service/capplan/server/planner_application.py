"""What ``PlannerService`` answers: requests checked, names resolved, the core asked, answers converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import FieldViolation, InvalidInputError
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.costs import ModelCosts, model_costs
from capplan.modeling.precision import accepted_weight_precisions, sizable_weight_precisions
from capplan.planning.deployment import estimate_deployment
from capplan.planning.planner import plan
from capplan.server.conversion.models import to_model_description
from capplan.server.conversion.plans import to_deployment_response, to_plan_response
from capplan.server.conversion.questions import to_deployment_query, to_placement_query
from capplan.server.estimators import BUILT_IN, Estimators
from capplan.server.model_selection import select_model
from capplan.server.validation.planner import (
    validate_describe_model,
    validate_estimate_deployment,
    validate_plan_placement,
)
from capplan.v1 import model_pb2, planner_service_pb2


class PlannerApplication:
    """One method for each of the service's. An answer depends on the request and the catalogue's revision only.

    Attributes:
        estimators: what can be asked for a second opinion; the same for as long as it lives.
    """

    def __init__(self, snapshot: Callable[[], CatalogSnapshot], estimators: Estimators = BUILT_IN) -> None:
        """Answer from what ``snapshot`` gives at the time of the call; ``estimators`` give second opinions."""
        self._snapshot = snapshot
        self.estimators = estimators

    def plan_placement(
        self, request: planner_service_pb2.PlanPlacementRequest
    ) -> planner_service_pb2.PlanPlacementResponse:
        """Ranks the placements that meet the target.

        Raises:
            InvalidInputError: the request breaks a rule; an infeasible one does not.
            NotFoundError: a model or accelerator is not in the catalogue.
        """
        validate_plan_placement(request)
        snapshot = self._snapshot()
        model = _model_costs(select_model(request.model, snapshot), request.precision)
        query = to_placement_query(request, model, snapshot)
        return to_plan_response(plan(query), query, snapshot.revision)

    def estimate_deployment(
        self, request: planner_service_pb2.EstimateDeploymentRequest
    ) -> planner_service_pb2.EstimateDeploymentResponse:
        """The figures of one layout.

        Raises:
            InvalidInputError: the request breaks a rule or names an estimator that is not there; a layout that would
                not start does not.
            NotFoundError: a model, accelerator or MIG profile is not in the catalogue.
        """
        validate_estimate_deployment(request)
        others = self.estimators.named(request.second_opinions, "second_opinions")
        snapshot = self._snapshot()
        model = _model_costs(select_model(request.model, snapshot), request.precision)
        query = to_deployment_query(request, model, snapshot, others)
        with _fields_renamed("constraints.engine", "deployment.engine"):
            estimate = estimate_deployment(query)
        return to_deployment_response(estimate, query, snapshot.revision)

    def describe_model(
        self, request: planner_service_pb2.DescribeModelRequest
    ) -> planner_service_pb2.DescribeModelResponse:
        """The anatomy of a model.

        Raises:
            InvalidInputError: the request breaks a rule, or the model cannot be sized exactly.
            NotFoundError: the model is not in the catalogue.
        """
        validate_describe_model(request)
        snapshot = self._snapshot()
        architecture = select_model(request.model, snapshot)
        asked = tuple(request.precisions)
        sizable = sizable_weight_precisions(architecture)
        # Figures of tokens, steps and accelerators need one format the model can be stored in: the first such one
        # asked for, or what engines load.
        weights = next((precision for precision in asked if precision in sizable), None)
        with _fields_renamed("precision.kv_cache", "kv_cache"):
            costs = model_costs(architecture, weights, request.kv_cache or "auto")
        return planner_service_pb2.DescribeModelResponse(
            model=to_model_description(
                architecture,
                costs,
                asked or accepted_weight_precisions(architecture),
                accelerators=[record.accelerator for record in snapshot.accelerators.values()],
                training=request.training,
            ),
            catalog_revision=snapshot.revision,
        )


def _model_costs(architecture: ModelArchitecture, precision: model_pb2.Precision) -> ModelCosts:
    return model_costs(architecture, precision.weights or None, precision.kv_cache or "auto")


@contextmanager
def _fields_renamed(core: str, request: str) -> Iterator[None]:
    """Faults of a field that the core knows by another request's path are reported by this request's."""
    try:
        yield
    except InvalidInputError as error:
        raise type(error)(
            FieldViolation(request + v.field.removeprefix(core), v.description) if v.field.startswith(core) else v
            for v in error.violations
        ) from None
