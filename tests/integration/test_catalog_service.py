"""The catalogue's methods over a socket."""

from __future__ import annotations

from capplan.v1 import catalog_service_pb2 as v1
from tests.server.catalogue import MODEL, MODEL_PARAMETERS
from tests.server.running_server import CALL_TIMEOUT_S, RunningServer


def test_an_accelerator_is_got_by_its_name_its_sku_and_its_alias(server: RunningServer) -> None:
    for name in ("accelerators/h100-sxm-80gb", "h100-sxm-80gb", "NVIDIA H100 80GB HBM3"):
        response = server.catalog.GetAccelerator(v1.GetAcceleratorRequest(name=name), timeout=CALL_TIMEOUT_S)
        accelerator = response.accelerator
        assert accelerator.name == "accelerators/h100-sxm-80gb"
        assert accelerator.architecture == "hopper"
        # NVIDIA's data sheet: 3.35 TB/s; 989.4 TFLOPS of BF16 without sparsity.
        assert accelerator.memory_bandwidth_bytes_per_s == 3.35e12
        assert abs(accelerator.peak_flop_per_s["bf16"] / 989.4e12 - 1) < 0.001
        assert accelerator.source.source


def test_accelerators_are_listed_by_filter(server: RunningServer) -> None:
    request = v1.ListAcceleratorsRequest(filter="vendor = nvidia AND memory_bytes >= 140000000000", page_size=500)
    rows = server.catalog.ListAccelerators(request, timeout=CALL_TIMEOUT_S).accelerators
    assert "accelerators/h200-sxm-141gb" in {row.name for row in rows}
    assert all(row.vendor == "nvidia" and row.memory_bytes >= 140e9 for row in rows)


def test_a_mig_profile_is_got_and_listed(server: RunningServer) -> None:
    name = "migBoards/a100-40gb/profiles/19"
    profile = server.catalog.GetMigProfile(v1.GetMigProfileRequest(name=name), timeout=CALL_TIMEOUT_S).mig_profile
    assert (profile.profile, profile.profile_id, profile.compute_slice_count) == ("1g.5gb", 19, 1)
    # NVIDIA's MIG user guide: seven instances of 1g.5gb, at starts 0 to 6.
    assert list(profile.starts) == [0, 1, 2, 3, 4, 5, 6]
    listed = server.catalog.ListMigProfiles(
        v1.ListMigProfilesRequest(parent="migBoards/a100-40gb", filter="profile_id = 19"), timeout=CALL_TIMEOUT_S
    )
    assert list(listed.mig_profiles) == [profile]


def test_a_model_is_got_and_listed(server: RunningServer) -> None:
    request = v1.GetModelProfileRequest(name="models/example-org--Example-8B")
    profile = server.catalog.GetModelProfile(request, timeout=CALL_TIMEOUT_S).model_profile
    assert profile.hub_id == MODEL
    assert profile.total_parameter_count == MODEL_PARAMETERS
    assert profile.native_weights == "bf16"
    assert profile.source.edited
    listed = server.catalog.ListModelProfiles(
        v1.ListModelProfilesRequest(filter=f'hub_id = "{MODEL}"'), timeout=CALL_TIMEOUT_S
    )
    assert list(listed.model_profiles) == [profile]


def test_a_price_is_got_and_prices_are_listed_in_pages(server: RunningServer) -> None:
    request = v1.ListPricesRequest(filter="accelerator = accelerators/h100-sxm-80gb AND term = on_demand", page_size=2)
    first = server.catalog.ListPrices(request, timeout=CALL_TIMEOUT_S)
    assert len(first.prices) == 2
    assert first.next_page_token
    request.page_token = first.next_page_token
    second = server.catalog.ListPrices(request, timeout=CALL_TIMEOUT_S)
    assert {price.name for price in first.prices}.isdisjoint(price.name for price in second.prices)
    one = first.prices[0]
    assert server.catalog.GetPrice(v1.GetPriceRequest(name=one.name), timeout=CALL_TIMEOUT_S).price == one
