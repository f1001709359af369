"""A change of the catalogue reaches a running server by itself."""

from __future__ import annotations

import grpc
import pytest

from capplan.catalog.editing import put_row
from capplan.catalog.tables import ModelProfileRow
from capplan.database import session_scope
from tests.server.catalogue import make_application, model_row
from tests.server.requests import plan_request
from tests.server.running_server import CALL_TIMEOUT_S, eventually, running


def test_the_catalogue_is_refreshed_while_serving() -> None:

    application = make_application()
    with running(application, catalog_refresh_s=0.05) as server:
        before = server.sample("capplan_catalog_revision")
        answered = [server.planner.PlanPlacement(plan_request(), timeout=CALL_TIMEOUT_S) for _ in range(2)]
        assert [response.catalog_revision for response in answered] == [before, before]
        with pytest.raises(grpc.RpcError) as refusal:
            server.planner.PlanPlacement(plan_request("example-org/New-8B"), timeout=CALL_TIMEOUT_S)
        assert refusal.value.code() is grpc.StatusCode.NOT_FOUND
        assert application._engine is not None
        with session_scope(application._engine) as session:
            put_row(session, ModelProfileRow, model_row("example-org/New-8B"))
        eventually(lambda: server.sample("capplan_catalog_revision") > before)
        response = server.planner.PlanPlacement(plan_request("example-org/New-8B"), timeout=CALL_TIMEOUT_S)
        assert response.catalog_revision == before + 1
        # The answer that was kept holds for the revision before, and is not given for this one.
        asked_again = server.planner.PlanPlacement(plan_request(), timeout=CALL_TIMEOUT_S)
        assert asked_again.catalog_revision == before + 1
    application.close()
