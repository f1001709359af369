"""The database itself refuses facts that cannot be. Run on the migrated schema, not on one made from the classes."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, Engine, Table, insert, select
from sqlalchemy.exc import IntegrityError

import capplan.catalog.tables as tables
from capplan.catalog.tables.accelerators import ARITHMETIC_FORMATS
from capplan.catalog.tables.mig import MEDIA_ENGINES
from capplan.database import Base

DAY = datetime.date(2026, 11, 30)
FACT: dict[str, Any] = {"source": "a data sheet", "as_of": DAY}

VALID: dict[str, dict[str, Any]] = {
    "mig_boards": FACT
    | {"board": "x", "display_name": "X", "grid_units": 8, "compute_slices": 7, "confidence": "measured"},
    "mig_profiles": FACT
    | {"board": "x", "profile_id": 9, "grid_units": 8, "name": "3g.40gb", "compute_slices": 3, "memory_slices": 4}
    | {"max_count": 2, "confidence": "measured", "memory_bytes": 40 << 30, "sm_count": 60, "min_driver": "R525"},
    "mig_profile_starts": {"board": "x", "profile_id": 9, "start": 4, "memory_slices": 4, "grid_units": 8},
    "accelerators": FACT
    | {"sku": "x-80gb", "vendor": "nvidia", "product_name": "X", "architecture": "hopper", "release_year": 2022}
    | {"memory_bytes": 80 << 30, "memory_basis": "driver", "memory_technology": "HBM3", "link_domain_size": 8}
    | {"memory_bandwidth_bytes_per_s": 3350e9, "sparsity_multiplier": 2.0, "interconnect": "nvlink4-nvswitch"}
    | {"form_factor": "SXM5", "confidence": "high", "mig_board": "x", "board_power_w": 700, "idle_power_w": 70},
    "accelerator_aliases": FACT | {"folded": "x", "alias": "X", "sku": "x-80gb", "kind": "spelling"},
    "device_prices": FACT
    | {"sku": "x-80gb", "term": "spot", "market": "typical", "usd_per_h": 2.0, "observed_from": DAY}
    | {"min_usd_per_h": 1.0, "max_usd_per_h": 3.0, "clouds": 2, "offers": 3},
    "cloud_instances": FACT
    | {"cloud": "c", "instance_type": "t", "region": "r", "sku": "x-80gb", "accelerator_count": 8}
    | {"accelerator_share": 1.0, "on_demand_usd_per_h": 16.0, "observed_from": DAY},
    "model_profiles": FACT
    | {"name": "o/m", "folded": "o-m", "family": "f", "total_parameters": 8_000_000_000, "facts": {"layers": 32}}
    | {"parameters_source": "counted", "confidence": "high"},
    "model_aliases": FACT | {"folded": "m", "alias": "m", "name": "o/m"},
    "measurement_imports": {"id": 7, "file_name": "run.json", "digest": "0" * 64, "format": "vllm"}
    | {"imported_at": datetime.datetime(2026, 11, 30), "landed": 2, "present": 0, "rejected": 1},
    "measurements": {"key": "k", "source": "a page", "as_of": "v1", "engine": "vllm", "model": "o/m", "weights": "fp8"}
    | {"kv_cache": "auto", "sku": "x-80gb", "devices": 8, "tensor_parallel": 2, "pipeline_parallel": 2}
    | {"expert_parallel": 1, "attention_data_parallel": 2, "input_tokens": 1000.0, "output_tokens": 100.0}
    | {"load_kind": "concurrency", "load_value": 16.0, "metric": "tpot_ms", "statistic": "mean", "value": 20.0}
    | {"trust": "B"},
    "calibrations": {"created_at": datetime.datetime(2026, 11, 30), "measurement_revision": 1, "source": "own"}
    | {"generations": ["hopper"], "engines": ["vllm"], "coefficients": {}, "residuals": {}},
}
WITH_SOURCE = tuple(name for name in VALID if name not in {"mig_profile_starts", "measurement_imports", "calibrations"})

# (table, what is wrong, the rule that refuses it)
CHECKS: list[tuple[str, dict[str, Any], str]] = [
    *((table, {"source": " "}, "source_not_blank") for table in WITH_SOURCE),
    *((table, {"retired": True}, "retired_by_an_operator") for table in WITH_SOURCE),
    ("accelerators", {"sku": ""}, "sku_not_blank"),
    ("accelerators", {"sku": "X-80GB"}, "sku_lower_case"),
    ("accelerators", {"vendor": "nvida"}, "vendor_known"),
    ("accelerators", {"product_name": ""}, "product_name_not_blank"),
    ("accelerators", {"architecture": ""}, "architecture_not_blank"),
    ("accelerators", {"release_year": 22}, "release_year_in_range"),
    ("accelerators", {"memory_bytes": 80}, "memory_bytes_in_range"),  # GB, not bytes
    ("accelerators", {"memory_bytes": -1}, "memory_bytes_in_range"),
    ("accelerators", {"memory_basis": "guess"}, "memory_basis_known"),
    ("accelerators", {"memory_basis": None}, "memory_has_a_basis"),
    ("accelerators", {"memory_bandwidth_bytes_per_s": 3350}, "memory_bandwidth_bytes_per_s_in_range"),  # GB/s
    ("accelerators", {"sm_count": 0}, "sm_count_at_least_1"),
    ("accelerators", {"boost_clock_mhz": 2}, "boost_clock_mhz_in_range"),  # GHz
    ("accelerators", {"l2_bytes": 50}, "l2_bytes_in_range"),  # MiB
    *(
        ("accelerators", {f"peak_{name}_flop_per_s": 989.4}, f"peak_{name}_flop_per_s_in_range")  # TFLOP/s
        for name in ARITHMETIC_FORMATS
    ),
    ("accelerators", {"sparsity_multiplier": 0.5}, "sparsity_multiplier_in_range"),
    ("accelerators", {"interconnect": ""}, "interconnect_not_blank"),
    ("accelerators", {"link_bytes_per_s": 450}, "link_bytes_per_s_in_range"),
    ("accelerators", {"link_bytes_per_s": 450e9, "interconnect": "pcie"}, "link_has_a_kind"),
    ("accelerators", {"link_domain_size": 0}, "link_domain_size_at_least_1"),
    ("accelerators", {"pcie_bytes_per_s": 63}, "pcie_bytes_per_s_in_range"),
    ("accelerators", {"board_power_w": 0.7, "idle_power_w": None}, "board_power_w_in_range"),  # kW
    ("accelerators", {"idle_power_w": 0}, "idle_power_w_in_range"),
    ("accelerators", {"idle_power_w": 700}, "idles_below_its_cap"),
    ("accelerators", {"confidence": "sure"}, "confidence_known"),
    ("accelerator_aliases", {"folded": ""}, "folded_not_blank"),
    ("accelerator_aliases", {"alias": ""}, "alias_not_blank"),
    ("accelerator_aliases", {"kind": "nickname"}, "kind_known"),
    ("mig_boards", {"board": ""}, "board_not_blank"),
    ("mig_boards", {"board": "X"}, "board_lower_case"),
    ("mig_boards", {"display_name": ""}, "display_name_not_blank"),
    ("mig_boards", {"grid_units": 0}, "grid_units_in_range"),
    ("mig_boards", {"compute_slices": 0}, "compute_slices_in_range"),
    ("mig_boards", {"min_driver": "525"}, "min_driver_is_a_branch"),
    ("mig_boards", {"confidence": "high"}, "confidence_known"),
    ("mig_profiles", {"profile_id": -1}, "profile_id_in_range"),
    ("mig_profiles", {"name": ""}, "name_not_blank"),
    ("mig_profiles", {"compute_slices": 0}, "compute_slices_at_least_1"),
    ("mig_profiles", {"memory_slices": 0}, "memory_slices_on_the_grid"),
    ("mig_profiles", {"memory_slices": 9}, "memory_slices_on_the_grid"),
    ("mig_profiles", {"memory_bytes": 40448}, "memory_bytes_in_range"),  # MiB
    ("mig_profiles", {"sm_count": 0}, "sm_count_at_least_1"),
    ("mig_profiles", {"max_count": 0}, "max_count_in_range"),
    ("mig_profiles", {"media_extension": "+me"}, "media_extension_known"),
    *(("mig_profiles", {f"{engine}_count": -1}, f"{engine}_count_at_least_0") for engine in MEDIA_ENGINES),
    ("mig_profiles", {"min_driver": "525"}, "min_driver_is_a_branch"),
    ("mig_profiles", {"confidence": "high"}, "confidence_known"),
    ("mig_profile_starts", {"start": -1}, "start_at_least_0"),
    ("mig_profile_starts", {"start": 5}, "ends_on_the_grid"),  # 5 + 4 units > 8
    ("device_prices", {"term": "reserved"}, "term_known"),
    ("device_prices", {"market": "all"}, "market_known"),
    ("device_prices", {"usd_per_h": 0, "min_usd_per_h": None}, "usd_per_h_in_range"),
    ("device_prices", {"min_usd_per_h": 2.5}, "min_not_above_the_median"),
    ("device_prices", {"max_usd_per_h": 1.5}, "max_not_below_the_median"),
    ("device_prices", {"clouds": 0}, "clouds_at_least_1"),
    ("device_prices", {"clouds": 4}, "offers_not_fewer_than_clouds"),
    ("device_prices", {"observed_from": datetime.date(2026, 12, 1)}, "observed_in_order"),
    ("cloud_instances", {"cloud": ""}, "cloud_not_blank"),
    ("cloud_instances", {"instance_type": ""}, "instance_type_not_blank"),
    ("cloud_instances", {"region": ""}, "region_not_blank"),
    ("cloud_instances", {"accelerator_count": 0}, "accelerator_count_in_range"),
    ("cloud_instances", {"accelerator_share": 0, "accelerator_count": 1}, "accelerator_share_is_a_share"),
    ("cloud_instances", {"accelerator_share": 1.5, "accelerator_count": 1}, "accelerator_share_is_a_share"),
    ("cloud_instances", {"accelerator_share": 0.5}, "only_one_device_is_shared"),
    ("cloud_instances", {"vcpus": 0}, "vcpus_at_least_1"),
    ("cloud_instances", {"host_memory_bytes": 2048}, "host_memory_bytes_in_range"),  # GiB
    ("cloud_instances", {"on_demand_usd_per_h": 0}, "on_demand_usd_per_h_in_range"),
    ("cloud_instances", {"spot_usd_per_h": -1}, "spot_usd_per_h_in_range"),
    ("cloud_instances", {"on_demand_usd_per_h": None}, "has_a_price"),
    ("cloud_instances", {"observed_from": datetime.date(2026, 12, 1)}, "observed_in_order"),
    ("model_profiles", {"name": ""}, "name_not_blank"),
    ("model_profiles", {"folded": ""}, "folded_not_blank"),
    ("model_profiles", {"family": ""}, "family_not_blank"),
    ("model_profiles", {"total_parameters": 0}, "total_parameters_in_range"),
    ("model_profiles", {"parameters_source": ""}, "parameters_source_not_blank"),
    ("model_profiles", {"cache_bytes_per_token_16bit": -1}, "cache_bytes_per_token_16bit_in_range"),
    ("model_profiles", {"state_bytes_per_sequence": -1}, "state_bytes_per_sequence_in_range"),
    ("model_profiles", {"confidence": "sure"}, "confidence_known"),
    ("model_aliases", {"folded": ""}, "folded_not_blank"),
    ("model_aliases", {"alias": ""}, "alias_not_blank"),
    ("measurement_imports", {"file_name": ""}, "file_name_not_blank"),
    ("measurement_imports", {"digest": "0"}, "digest_is_sha256"),
    ("measurement_imports", {"format": "xml"}, "format_known"),
    *(("measurement_imports", {count: -1}, f"{count}_at_least_0") for count in ("landed", "present", "rejected")),
    *(("measurements", {name: " "}, f"{name}_not_blank") for name in ("key", "as_of", "engine", "weights", "kv_cache")),
    *(
        ("measurements", {name: 0, **({"tensor_parallel": None} if name == "devices" else {})}, f"{name}_in_range")
        for name in (
            "devices",
            "tensor_parallel",
            "pipeline_parallel",
            "expert_parallel",
            "attention_data_parallel",
        )
    ),
    ("measurements", {"devices": 7}, "ranks_within_devices"),  # 2 x 2 x 2 ranks
    *(
        ("measurements", {name: wrong}, f"{name}_positive")
        for name in ("input_tokens", "output_tokens", "load_value", "value")
        for wrong in (0.0, -1.0, float("inf"))
    ),
    ("measurements", {"load_kind": "busy"}, "load_kind_known"),
    ("measurements", {"load_value": None}, "load_is_stated"),
    ("measurements", {"metric": "tpot_s"}, "metric_known"),
    ("measurements", {"statistic": "p42"}, "statistic_known"),
    ("measurements", {"trust": "D"}, "trust_known"),
    ("measurements", {"trust": "own"}, "own_rows_were_imported"),
    ("measurements", {"import_id": 7, "edited": True}, "own_rows_were_imported"),
    ("measurements", {"import_id": 7, "trust": "own"}, "imported_by_an_operator"),
    ("measurement_revision", {"id": 2, "revision": 0}, "only_row"),
    ("calibrations", {"source": "theirs"}, "source_known"),
    ("calibrations", {"measurement_revision": -1}, "measurement_revision_at_least_0"),
    ("catalog_revision", {"id": 2, "revision": 0}, "only_row"),
    ("catalog_revision", {"id": 2, "revision": -1}, "only_row"),
]

REVISIONS = ("catalog_revision", "measurement_revision")

# (table, what is wrong, text of the refusal)
REFERENCES: list[tuple[str, dict[str, Any], str]] = [
    ("accelerators", {"mig_board": "y"}, "FOREIGN KEY"),
    ("accelerator_aliases", {"sku": "y"}, "FOREIGN KEY"),
    ("device_prices", {"sku": "y"}, "FOREIGN KEY"),
    ("cloud_instances", {"sku": "y"}, "FOREIGN KEY"),
    ("model_aliases", {"name": "y"}, "FOREIGN KEY"),
    ("mig_profiles", {"board": "y"}, "FOREIGN KEY"),
    ("mig_profiles", {"grid_units": 12}, "FOREIGN KEY"),  # not the board's grid
    ("mig_profile_starts", {"profile_id": 5}, "FOREIGN KEY"),
    ("mig_profile_starts", {"memory_slices": 2}, "FOREIGN KEY"),  # not the profile's size
    ("mig_profile_starts", {"grid_units": 12}, "FOREIGN KEY"),
    ("measurements", {"sku": "y"}, "FOREIGN KEY"),
    ("measurements", {"model": "y"}, "FOREIGN KEY"),
    ("measurements", {"import_id": 8, "trust": "own", "edited": True}, "FOREIGN KEY"),
    ("measurements", {"value": float("nan")}, "NOT NULL"),
    ("accelerators", {"source": None}, "NOT NULL"),
    ("accelerators", {"as_of": None}, "NOT NULL"),
    ("device_prices", {"as_of": None}, "NOT NULL"),
    ("mig_profiles", {"memory_slices": None}, "NOT NULL"),
]


def table(name: str) -> Table:
    return Base.metadata.tables[name]


def insert_valid(engine: Engine, until: str) -> None:
    """Insert the rows that a row of the table refers to."""
    with engine.begin() as connection:
        for name, row in VALID.items():
            if name == until:
                return
            connection.execute(insert(table(name)).values(row))


def test_every_valid_row_is_accepted(empty: Engine) -> None:
    insert_valid(empty, until="")
    with empty.connect() as connection:
        for name in VALID:
            assert len(connection.execute(select(table(name))).all()) == 1


@pytest.mark.parametrize(("name", "wrong", "rule"), CHECKS, ids=lambda value: str(value)[:60])
def test_a_rule_refuses(empty: Engine, name: str, wrong: dict[str, Any], rule: str) -> None:
    insert_valid(empty, until=name)
    row = VALID.get(name, {"updated_at": datetime.datetime(2026, 1, 1)} if name == "catalog_revision" else {}) | wrong
    with empty.begin() as connection, pytest.raises(IntegrityError, match=f"ck_{name}_{rule}\\b"):
        connection.execute(insert(table(name)).values(row))


@pytest.mark.parametrize(("name", "wrong", "refusal"), REFERENCES, ids=lambda value: str(value)[:60])
def test_a_reference_or_a_missing_value_is_refused(
    empty: Engine, name: str, wrong: dict[str, Any], refusal: str
) -> None:
    insert_valid(empty, until=name)
    with empty.begin() as connection, pytest.raises(IntegrityError, match=refusal):
        connection.execute(insert(table(name)).values(VALID[name] | wrong))


@pytest.mark.parametrize("name", [name for name in VALID if name != "calibrations"])  # its key is a number given out
def test_a_key_is_unique(empty: Engine, name: str) -> None:
    insert_valid(empty, until="")
    with empty.begin() as connection, pytest.raises(IntegrityError, match="UNIQUE"):
        connection.execute(insert(table(name)).values(VALID[name]))


def test_a_profile_name_is_unique_on_its_board(empty: Engine) -> None:
    insert_valid(empty, until="mig_profile_starts")
    with empty.begin() as connection, pytest.raises(IntegrityError, match="UNIQUE"):
        connection.execute(insert(table("mig_profiles")).values(VALID["mig_profiles"] | {"profile_id": 5}))


def test_every_check_of_the_tables_has_a_case_here() -> None:
    # `revision >= 0` cannot be reached alone: the only row exists already. Its own test is below.
    covered = {f"ck_{name}_{rule}" for name, _, rule in CHECKS}
    covered |= {f"ck_{name}_revision_at_least_0" for name in REVISIONS}
    named = {
        str(constraint.name)
        for name in tables.__all__
        for constraint in getattr(tables, name).__table__.constraints
        if isinstance(constraint, CheckConstraint)
    }
    assert covered == named


@pytest.mark.parametrize("name", REVISIONS)
def test_a_revision_cannot_become_negative(empty: Engine, name: str) -> None:
    with empty.begin() as connection, pytest.raises(IntegrityError, match="revision_at_least_0"):
        connection.exec_driver_sql(f"UPDATE {name} SET revision = -1")


@pytest.mark.parametrize(
    "row",
    [
        {"tensor_parallel": None},
        {"load_kind": "offline_max", "load_value": None},
        {"load_kind": "qps", "load_value": None, "statistic": "max_under_slo"},
        {"trust": "own", "import_id": 7, "edited": True},
    ],
    ids=str,
)
def test_a_measurement_may_leave_this_open(empty: Engine, row: dict[str, Any]) -> None:
    insert_valid(empty, until="measurements")
    with empty.begin() as connection:
        connection.execute(insert(table("measurements")).values(VALID["measurements"] | row))
