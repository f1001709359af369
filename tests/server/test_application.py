"""The application answers every method from one revision of the catalogue, and takes up the next one when told."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from capplan.catalog.editing import put_row, retire_row
from capplan.catalog.paging import Paginator
from capplan.catalog.tables import AcceleratorAliasRow, ModelProfileRow
from capplan.database import open_engine, session_scope
from capplan.errors import InvalidInputError, NotFoundError
from capplan.server.application import Application, DatabaseUnavailableError
from capplan.settings import Settings
from capplan.v1 import catalog_service_pb2, placement_pb2
from tests.server.catalogue import (
    CONFIG,
    CONFIG_JSON,
    KV_BYTES_PER_TOKEN,
    MODEL,
    MODEL_ALIAS,
    MODEL_PARAMETERS,
    make_application,
    model_row,
)
from tests.server.requests import describe_request, estimate_request, plan_request


def test_the_same_question_on_the_same_revision_gives_the_same_bytes(application: Application) -> None:
    other = make_application()
    for ask, request in (
        ("plan_placement", plan_request()),
        ("estimate_deployment", estimate_request()),
        ("describe_model", describe_request()),
    ):
        encoded = {
            getattr(app, ask)(request).SerializeToString(deterministic=True)
            for app in (application, other, application)
        }
        assert len(encoded) == 1
    other.close()


@pytest.mark.parametrize("name", [MODEL, MODEL_ALIAS, "EXAMPLE-ORG/example-8b", "models/example-org--Example-8B"])
def test_a_model_is_found_by_every_name_it_has(application: Application, name: str) -> None:
    response = application.plan_placement(plan_request(name))
    assert response.model == MODEL
    assert response.placements


def test_a_config_gives_the_answer_of_the_same_model_in_the_catalogue(application: Application) -> None:
    by_name = application.plan_placement(plan_request())
    request = plan_request()
    request.model.config_json = CONFIG_JSON
    by_config = application.plan_placement(request)
    assert by_config.placements == by_name.placements
    assert by_config.model == "llama"
    request.model.display_name = "ours"
    assert application.plan_placement(request).model == "ours"


def test_an_infeasible_question_is_answered_with_what_would_make_it_feasible(application: Application) -> None:
    request = plan_request()
    request.latency_limits.add(metric=placement_pb2.LATENCY_METRIC_ITL, limit_ms=0.1)
    response = application.plan_placement(request)
    assert not response.placements
    assert {rejection.accelerator for rejection in response.rejections} == set(application.messages.accelerators)
    assert [relaxation.field for relaxation in response.relaxations] == ["latency_limits[0].limit_ms"]
    # The answer's own advice must do.
    request.latency_limits[0].limit_ms = float(response.relaxations[0].value)
    assert application.plan_placement(request).placements


def test_placed_and_rejected_accelerators_are_all_there_are(application: Application) -> None:
    request = plan_request()
    request.max_placements = 100
    response = application.plan_placement(request)
    placed = {placement.accelerator for placement in response.placements}
    rejected = [rejection.accelerator for rejection in response.rejections]
    assert len(rejected) == len(set(rejected))
    assert placed.isdisjoint(rejected)
    assert placed | set(rejected) == set(application.messages.accelerators)


def test_a_layout_is_estimated(application: Application) -> None:
    response = application.estimate_deployment(estimate_request())
    assert response.starts
    assert response.accelerator == "accelerators/h100-sxm-80gb"
    assert response.memory.weight_bytes == 2 * MODEL_PARAMETERS
    assert response.performance.itl_ms.value > 0
    single = response.total_output_tokens_per_s.value
    doubled = estimate_request()
    doubled.deployment.replica_count = 2
    assert application.estimate_deployment(doubled).total_output_tokens_per_s.value == pytest.approx(2 * single)


def test_a_fault_of_a_layouts_engine_has_the_path_of_that_request(application: Application) -> None:
    request = estimate_request()
    request.deployment.engine.name = "an-engine-of-tomorrow"
    with pytest.raises(InvalidInputError) as refusal:
        application.estimate_deployment(request)
    assert [violation.field for violation in refusal.value.violations] == ["deployment.engine.name"]


def test_a_model_is_described_exactly(application: Application) -> None:
    request = describe_request()
    request.precisions.extend(["bf16", "fp32", "mxfp4"])
    model = application.describe_model(request).model
    assert model.total_parameters == model.active_parameters == MODEL_PARAMETERS
    assert sum(group.total_parameters for group in model.parameter_groups) == MODEL_PARAMETERS
    assert model.kv_cache_bytes_per_token == KV_BYTES_PER_TOKEN
    bf16, fp32, mxfp4 = model.precisions
    assert bf16.weight_bytes == 2 * MODEL_PARAMETERS
    assert bf16.effective_bits_per_parameter == 16
    assert fp32.weight_bytes == 4 * MODEL_PARAMETERS
    assert "routed experts" in mxfp4.refusal
    assert mxfp4.weight_bytes == 0


def test_a_checkpoint_stored_in_fp32_is_described_as_engines_load_it(application: Application) -> None:
    request = describe_request()
    request.model.config_json = json.dumps(CONFIG | {"torch_dtype": "float32"})
    model = application.describe_model(request).model
    assert (model.native_weights, model.weight_bytes) == ("fp32", 4 * MODEL_PARAMETERS)
    assert (model.weights, model.kv_cache, model.kv_cache_bytes_per_token) == ("bf16", "bf16", KV_BYTES_PER_TOKEN)
    assert any("stored in fp32 and taken in bf16" in sentence for sentence in model.assumptions)
    request.precisions.append("fp32")
    kept = application.describe_model(request).model
    assert (kept.weights, kept.kv_cache, kept.kv_cache_bytes_per_token) == ("fp32", "fp32", 2 * KV_BYTES_PER_TOKEN)


def test_without_precisions_every_possible_one_is_described(application: Application) -> None:
    sizes = application.describe_model(describe_request()).model.precisions
    assert {"bf16", "fp8", "int4"} <= {size.weights for size in sizes}
    assert not any(size.refusal for size in sizes)


def test_an_unknown_model_comes_with_near_names(application: Application) -> None:
    with pytest.raises(NotFoundError) as refusal:
        application.plan_placement(plan_request("example-org/Example-9B"))
    assert MODEL in refusal.value.near


def test_a_model_larger_than_any_is_refused(application: Application) -> None:
    request = describe_request()
    # Feed-forwards of 3 * 2^15 * 2^24 weights in 2,048 layers alone are 3.4e15.
    widths = {"hidden_size": 1 << 15, "intermediate_size": 1 << 24, "num_hidden_layers": 2048}
    request.model.config_json = json.dumps({**CONFIG, **widths})
    with pytest.raises(InvalidInputError, match="parameters; accepted: at most 1e"):
        application.describe_model(request)


def test_every_listed_row_can_be_got_by_its_name(application: Application) -> None:
    v1 = catalog_service_pb2
    for row in application.list_accelerators(v1.ListAcceleratorsRequest(page_size=500)).accelerators:
        assert application.get_accelerator(v1.GetAcceleratorRequest(name=row.name)).accelerator == row
    for profile in application.list_mig_profiles(v1.ListMigProfilesRequest(page_size=500)).mig_profiles:
        assert application.get_mig_profile(v1.GetMigProfileRequest(name=profile.name)).mig_profile == profile
    for model in application.list_model_profiles(v1.ListModelProfilesRequest(page_size=500)).model_profiles:
        assert application.get_model_profile(v1.GetModelProfileRequest(name=model.name)).model_profile == model
    for price in application.list_prices(v1.ListPricesRequest(page_size=500)).prices:
        assert application.get_price(v1.GetPriceRequest(name=price.name)).price == price


def test_pages_put_together_are_the_whole_listing_in_order(application: Application) -> None:
    request = catalog_service_pb2.ListPricesRequest(page_size=37)
    names: list[str] = []
    while True:
        page = application.list_prices(request)
        assert len(page.prices) <= 37
        names += [price.name for price in page.prices]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert names == sorted(application.messages.prices)


def test_a_page_token_is_good_for_its_own_listing_only(application: Application) -> None:
    v1 = catalog_service_pb2
    token = application.list_mig_profiles(v1.ListMigProfilesRequest(page_size=1)).next_page_token
    parent = "migBoards/a100-40gb"
    with pytest.raises(InvalidInputError, match="page_token"):
        application.list_mig_profiles(v1.ListMigProfilesRequest(page_size=1, parent=parent, page_token=token))
    with pytest.raises(InvalidInputError, match="page_token"):
        application.list_accelerators(v1.ListAcceleratorsRequest(page_size=1, page_token=token))


def test_a_board_lists_its_own_profiles(application: Application) -> None:
    v1 = catalog_service_pb2
    profiles = application.list_mig_profiles(v1.ListMigProfilesRequest(parent="migBoards/a30-24gb")).mig_profiles
    assert {profile.profile for profile in profiles} >= {"1g.6gb", "2g.12gb", "4g.24gb"}
    assert all(profile.name.startswith("migBoards/a30-24gb/profiles/") for profile in profiles)
    with pytest.raises(NotFoundError) as refusal:
        application.list_mig_profiles(v1.ListMigProfilesRequest(parent="migBoards/a31"))
    assert "migBoards/a30-24gb" in refusal.value.near


def test_prices_of_shapes_are_per_device(application: Application) -> None:
    # aws g5.48xlarge has eight A10G and cost 16.288 dollars an hour in us-east-1 on 2026-07-20 (the catalogue's data).
    name = "prices/aws~g5.48xlarge~us-east-1~on_demand"
    price = application.get_price(catalog_service_pb2.GetPriceRequest(name=name)).price
    assert price.device_count == 8
    assert price.usd_per_device_h == pytest.approx(16.288 / 8)
    assert price.accelerator == "accelerators/a10g-24gb"


def test_an_unknown_price_comes_with_those_of_the_same_device(application: Application) -> None:
    with pytest.raises(NotFoundError) as refusal:
        application.get_price(catalog_service_pb2.GetPriceRequest(name="prices/h100-sxm-80gb~monthly~typical"))
    assert "prices/h100-sxm-80gb~on_demand~typical" in refusal.value.near


def test_a_change_of_the_catalogue_is_taken_up_when_asked_for(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'catalogue.sqlite3'}"
    application = make_application(url)
    before = application.revision
    assert not application.refresh()
    engine = open_engine(url)
    with session_scope(engine) as session:
        put_row(session, ModelProfileRow, model_row("example-org/Another-8B"))
    request = plan_request("example-org/Another-8B")
    with pytest.raises(NotFoundError):
        application.plan_placement(request)
    assert application.refresh()
    assert application.revision > before
    assert application.plan_placement(request).catalog_revision == application.revision
    with session_scope(engine) as session:
        retire_row(session, ModelProfileRow, {"name": "example-org/Another-8B"})
    assert application.refresh()
    with pytest.raises(NotFoundError):
        application.plan_placement(request)
    engine.dispose()
    application.close()


def test_the_catalogue_held_goes_on_answering_when_the_database_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite3"
    application = make_application(f"sqlite:///{path}")
    application.close()
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(DatabaseUnavailableError):
        application.refresh()
    assert application.plan_placement(plan_request()).placements
    application.close()


def test_settings_open_migrate_and_load_an_embedded_database(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'new.sqlite3'}")
    application = Application.from_settings(settings)
    first = application.revision
    assert application.snapshot.accelerators
    application.close()
    again = Application.from_settings(settings)
    assert again.revision == first, "loading the same facts again is no change"
    again.close()


def test_replicas_with_one_key_accept_each_others_page_tokens(application: Application) -> None:
    v1 = catalog_service_pb2
    token = application.list_prices(v1.ListPricesRequest(page_size=1)).next_page_token
    same_key = Application(application.snapshot, Paginator(b"a key for the tests"))
    same_key.list_prices(v1.ListPricesRequest(page_size=1, page_token=token))
    other_key = Application(application.snapshot, Paginator(b"another key of the tests"))
    with pytest.raises(InvalidInputError):
        other_key.list_prices(v1.ListPricesRequest(page_size=1, page_token=token))


def test_a_database_that_cannot_be_opened_is_named_without_its_password() -> None:
    url = "sqlite:////nowhere/at/all.sqlite3"
    with pytest.raises(DatabaseUnavailableError, match="nowhere"):
        Application.from_settings(Settings(database_url=url))


def test_a_new_alias_means_its_accelerator_after_a_refresh() -> None:
    application = make_application()
    assert application._engine is not None

    with session_scope(application._engine) as session:
        put_row(
            session,
            AcceleratorAliasRow,
            {
                "folded": "thebigone",
                "alias": "the-big-one",
                "sku": "h100-sxm-80gb",
                "kind": "spelling",
                "source": "made up for the tests",
                "as_of": datetime.date(2026, 11, 30),
            },
        )
    assert application.refresh()
    request = catalog_service_pb2.GetAcceleratorRequest(name="The Big One")
    assert application.get_accelerator(request).accelerator.name == "accelerators/h100-sxm-80gb"
    application.close()
