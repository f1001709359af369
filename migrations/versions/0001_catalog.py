"""The catalogue: accelerators, MIG boards, prices, cloud instances, model profiles.

Revision: 0001
After: nothing
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    revision_table = op.create_table(
        "catalog_revision",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_catalog_revision_only_row")),
        sa.CheckConstraint("revision >= 0", name=op.f("ck_catalog_revision_revision_at_least_0")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalog_revision")),
    )
    op.create_table(
        "mig_boards",
        sa.Column("board", sa.String(length=64), nullable=False),
        sa.Column("display_name", sa.String(length=128), nullable=False),
        sa.Column("grid_units", sa.Integer(), nullable=True),
        sa.Column("compute_slices", sa.Integer(), nullable=False),
        sa.Column("min_driver", sa.String(length=8), nullable=True),
        sa.Column("confidence", sa.String(length=32), nullable=False),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint(
            "confidence IN ('measured', 'partly-measured', 'names-documented', 'unverified')",
            name=op.f("ck_mig_boards_confidence_known"),
        ),
        sa.CheckConstraint(
            "substr(min_driver, 1, 1) = 'R' AND length(min_driver) = 4",
            name=op.f("ck_mig_boards_min_driver_is_a_branch"),
        ),
        sa.CheckConstraint("board = lower(board)", name=op.f("ck_mig_boards_board_lower_case")),
        sa.CheckConstraint("compute_slices BETWEEN 1 AND 64", name=op.f("ck_mig_boards_compute_slices_in_range")),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_mig_boards_retired_by_an_operator")),
        sa.CheckConstraint("grid_units BETWEEN 1 AND 64", name=op.f("ck_mig_boards_grid_units_in_range")),
        sa.CheckConstraint("length(trim(board)) > 0", name=op.f("ck_mig_boards_board_not_blank")),
        sa.CheckConstraint("length(trim(display_name)) > 0", name=op.f("ck_mig_boards_display_name_not_blank")),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_mig_boards_source_not_blank")),
        sa.PrimaryKeyConstraint("board", name=op.f("pk_mig_boards")),
        sa.UniqueConstraint("board", "grid_units", name=op.f("uq_mig_boards_board_grid_units")),
    )
    op.create_table(
        "model_profiles",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("folded", sa.String(length=128), nullable=False),
        sa.Column("family", sa.String(length=64), nullable=False),
        sa.Column("total_parameters", sa.BigInteger(), nullable=False),
        sa.Column("parameters_source", sa.String(length=512), nullable=False),
        sa.Column("cache_bytes_per_token_16bit", sa.BigInteger(), nullable=True),
        sa.Column("state_bytes_per_sequence", sa.BigInteger(), nullable=True),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("confidence", sa.String(length=16), nullable=False),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint("confidence IN ('high', 'medium', 'low')", name=op.f("ck_model_profiles_confidence_known")),
        sa.CheckConstraint(
            "cache_bytes_per_token_16bit BETWEEN 0 AND 1000000000000",
            name=op.f("ck_model_profiles_cache_bytes_per_token_16bit_in_range"),
        ),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_model_profiles_retired_by_an_operator")),
        sa.CheckConstraint("length(trim(family)) > 0", name=op.f("ck_model_profiles_family_not_blank")),
        sa.CheckConstraint("length(trim(folded)) > 0", name=op.f("ck_model_profiles_folded_not_blank")),
        sa.CheckConstraint("length(trim(name)) > 0", name=op.f("ck_model_profiles_name_not_blank")),
        sa.CheckConstraint(
            "length(trim(parameters_source)) > 0", name=op.f("ck_model_profiles_parameters_source_not_blank")
        ),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_model_profiles_source_not_blank")),
        sa.CheckConstraint(
            "state_bytes_per_sequence BETWEEN 0 AND 1000000000000",
            name=op.f("ck_model_profiles_state_bytes_per_sequence_in_range"),
        ),
        sa.CheckConstraint(
            "total_parameters BETWEEN 1 AND 1000000000000000", name=op.f("ck_model_profiles_total_parameters_in_range")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_model_profiles")),
        sa.UniqueConstraint("folded", name=op.f("uq_model_profiles_folded")),
    )
    op.create_table(
        "accelerators",
        sa.Column("sku", sa.String(length=64), nullable=False),
        sa.Column("vendor", sa.String(length=16), nullable=False),
        sa.Column("product_name", sa.String(length=128), nullable=False),
        sa.Column("device_name", sa.String(length=128), nullable=True),
        sa.Column("architecture", sa.String(length=32), nullable=False),
        sa.Column("compute_capability", sa.String(length=16), nullable=True),
        sa.Column("release_year", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("memory_basis", sa.String(length=16), nullable=True),
        sa.Column("memory_technology", sa.String(length=32), nullable=False),
        sa.Column("memory_bandwidth_bytes_per_s", sa.Double(), nullable=False),
        sa.Column("sm_count", sa.Integer(), nullable=True),
        sa.Column("boost_clock_mhz", sa.Integer(), nullable=True),
        sa.Column("l2_bytes", sa.BigInteger(), nullable=True),
        sa.Column("peak_fp64_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_fp32_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_tf32_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_fp16_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_bf16_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_fp8_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_int8_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_int4_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_fp6_flop_per_s", sa.Double(), nullable=True),
        sa.Column("peak_fp4_flop_per_s", sa.Double(), nullable=True),
        sa.Column("sparsity_multiplier", sa.Double(), nullable=False),
        sa.Column("interconnect", sa.String(length=32), nullable=False),
        sa.Column("link_bytes_per_s", sa.Double(), nullable=True),
        sa.Column("link_domain_size", sa.Integer(), nullable=False),
        sa.Column("pcie_bytes_per_s", sa.Double(), nullable=True),
        sa.Column("board_power_w", sa.Double(), nullable=True),
        sa.Column("idle_power_w", sa.Double(), nullable=True),
        sa.Column("form_factor", sa.String(length=32), nullable=False),
        sa.Column("mig_board", sa.String(length=64), nullable=True),
        sa.Column("kubernetes_product_label", sa.String(length=128), nullable=True),
        sa.Column("pci_device_id", sa.String(length=8), nullable=True),
        sa.Column("confidence", sa.String(length=16), nullable=False),
        sa.Column("cross_check", sa.String(length=512), nullable=True),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint("confidence IN ('high', 'medium', 'low')", name=op.f("ck_accelerators_confidence_known")),
        sa.CheckConstraint(
            "link_bytes_per_s IS NULL OR interconnect NOT IN ('none', 'pcie')",
            name=op.f("ck_accelerators_link_has_a_kind"),
        ),
        sa.CheckConstraint("memory_basis IN ('driver', 'vendor')", name=op.f("ck_accelerators_memory_basis_known")),
        sa.CheckConstraint(
            "vendor IN ('amd', 'apple', 'aws', 'google', 'intel', 'nvidia')", name=op.f("ck_accelerators_vendor_known")
        ),
        sa.CheckConstraint(
            "(memory_bytes IS NULL) = (memory_basis IS NULL)", name=op.f("ck_accelerators_memory_has_a_basis")
        ),
        sa.CheckConstraint("board_power_w BETWEEN 1 AND 100000", name=op.f("ck_accelerators_board_power_w_in_range")),
        sa.CheckConstraint(
            "boost_clock_mhz BETWEEN 100 AND 10000", name=op.f("ck_accelerators_boost_clock_mhz_in_range")
        ),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_accelerators_retired_by_an_operator")),
        sa.CheckConstraint("idle_power_w BETWEEN 1 AND 100000", name=op.f("ck_accelerators_idle_power_w_in_range")),
        sa.CheckConstraint(
            "idle_power_w IS NULL OR idle_power_w < board_power_w", name=op.f("ck_accelerators_idles_below_its_cap")
        ),
        sa.CheckConstraint("l2_bytes BETWEEN 1024 AND 100000000000", name=op.f("ck_accelerators_l2_bytes_in_range")),
        sa.CheckConstraint("length(trim(architecture)) > 0", name=op.f("ck_accelerators_architecture_not_blank")),
        sa.CheckConstraint("length(trim(interconnect)) > 0", name=op.f("ck_accelerators_interconnect_not_blank")),
        sa.CheckConstraint("length(trim(product_name)) > 0", name=op.f("ck_accelerators_product_name_not_blank")),
        sa.CheckConstraint("length(trim(sku)) > 0", name=op.f("ck_accelerators_sku_not_blank")),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_accelerators_source_not_blank")),
        sa.CheckConstraint(
            "link_bytes_per_s BETWEEN 1000000000 AND 1000000000000000",
            name=op.f("ck_accelerators_link_bytes_per_s_in_range"),
        ),
        sa.CheckConstraint("link_domain_size >= 1", name=op.f("ck_accelerators_link_domain_size_at_least_1")),
        sa.CheckConstraint(
            "memory_bandwidth_bytes_per_s BETWEEN 1000000000 AND 1000000000000000",
            name=op.f("ck_accelerators_memory_bandwidth_bytes_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "memory_bytes BETWEEN 1000000000 AND 100000000000000", name=op.f("ck_accelerators_memory_bytes_in_range")
        ),
        sa.CheckConstraint(
            "pcie_bytes_per_s BETWEEN 1000000000 AND 1000000000000000",
            name=op.f("ck_accelerators_pcie_bytes_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_bf16_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_bf16_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_fp16_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_fp16_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_fp32_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_fp32_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_fp4_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_fp4_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_fp64_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_fp64_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_fp6_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_fp6_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_fp8_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_fp8_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_int4_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_int4_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_int8_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_int8_flop_per_s_in_range"),
        ),
        sa.CheckConstraint(
            "peak_tf32_flop_per_s BETWEEN 1000000000 AND 1000000000000000000",
            name=op.f("ck_accelerators_peak_tf32_flop_per_s_in_range"),
        ),
        sa.CheckConstraint("release_year BETWEEN 2000 AND 2100", name=op.f("ck_accelerators_release_year_in_range")),
        sa.CheckConstraint("sku = lower(sku)", name=op.f("ck_accelerators_sku_lower_case")),
        sa.CheckConstraint("sm_count >= 1", name=op.f("ck_accelerators_sm_count_at_least_1")),
        sa.CheckConstraint(
            "sparsity_multiplier BETWEEN 1 AND 4", name=op.f("ck_accelerators_sparsity_multiplier_in_range")
        ),
        sa.ForeignKeyConstraint(["mig_board"], ["mig_boards.board"], name=op.f("fk_accelerators_mig_board_mig_boards")),
        sa.PrimaryKeyConstraint("sku", name=op.f("pk_accelerators")),
    )
    op.create_table(
        "mig_profiles",
        sa.Column("board", sa.String(length=64), nullable=False),
        sa.Column("profile_id", sa.Integer(), nullable=False),
        sa.Column("grid_units", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("compute_slices", sa.Integer(), nullable=False),
        sa.Column("memory_slices", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("sm_count", sa.Integer(), nullable=True),
        sa.Column("max_count", sa.Integer(), nullable=False),
        sa.Column("media_extension", sa.String(length=8), nullable=True),
        sa.Column("decoder_count", sa.Integer(), nullable=True),
        sa.Column("encoder_count", sa.Integer(), nullable=True),
        sa.Column("jpeg_count", sa.Integer(), nullable=True),
        sa.Column("optical_flow_count", sa.Integer(), nullable=True),
        sa.Column("min_driver", sa.String(length=8), nullable=True),
        sa.Column("confidence", sa.String(length=32), nullable=False),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint(
            "confidence IN ('measured', 'partly-measured', 'names-documented', 'unverified')",
            name=op.f("ck_mig_profiles_confidence_known"),
        ),
        sa.CheckConstraint(
            "media_extension IN ('me', 'gfx', 'me.all', '-me')", name=op.f("ck_mig_profiles_media_extension_known")
        ),
        sa.CheckConstraint(
            "substr(min_driver, 1, 1) = 'R' AND length(min_driver) = 4",
            name=op.f("ck_mig_profiles_min_driver_is_a_branch"),
        ),
        sa.CheckConstraint("compute_slices >= 1", name=op.f("ck_mig_profiles_compute_slices_at_least_1")),
        sa.CheckConstraint("decoder_count >= 0", name=op.f("ck_mig_profiles_decoder_count_at_least_0")),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_mig_profiles_retired_by_an_operator")),
        sa.CheckConstraint("encoder_count >= 0", name=op.f("ck_mig_profiles_encoder_count_at_least_0")),
        sa.CheckConstraint("jpeg_count >= 0", name=op.f("ck_mig_profiles_jpeg_count_at_least_0")),
        sa.CheckConstraint("length(trim(name)) > 0", name=op.f("ck_mig_profiles_name_not_blank")),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_mig_profiles_source_not_blank")),
        sa.CheckConstraint("max_count BETWEEN 1 AND 64", name=op.f("ck_mig_profiles_max_count_in_range")),
        sa.CheckConstraint(
            "memory_bytes BETWEEN 1073741824 AND 100000000000000", name=op.f("ck_mig_profiles_memory_bytes_in_range")
        ),
        sa.CheckConstraint(
            "memory_slices BETWEEN 1 AND grid_units", name=op.f("ck_mig_profiles_memory_slices_on_the_grid")
        ),
        sa.CheckConstraint("optical_flow_count >= 0", name=op.f("ck_mig_profiles_optical_flow_count_at_least_0")),
        sa.CheckConstraint("profile_id BETWEEN 0 AND 255", name=op.f("ck_mig_profiles_profile_id_in_range")),
        sa.CheckConstraint("sm_count >= 1", name=op.f("ck_mig_profiles_sm_count_at_least_1")),
        sa.ForeignKeyConstraint(
            ["board", "grid_units"],
            ["mig_boards.board", "mig_boards.grid_units"],
            name="fk_mig_profiles_board",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("board", "profile_id", name=op.f("pk_mig_profiles")),
        sa.UniqueConstraint("board", "name", name=op.f("uq_mig_profiles_board_name")),
        sa.UniqueConstraint(
            "board",
            "profile_id",
            "memory_slices",
            "grid_units",
            name=op.f("uq_mig_profiles_board_profile_id_memory_slices_grid_units"),
        ),
    )
    op.create_table(
        "model_aliases",
        sa.Column("folded", sa.String(length=128), nullable=False),
        sa.Column("alias", sa.String(length=128), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_model_aliases_retired_by_an_operator")),
        sa.CheckConstraint("length(trim(alias)) > 0", name=op.f("ck_model_aliases_alias_not_blank")),
        sa.CheckConstraint("length(trim(folded)) > 0", name=op.f("ck_model_aliases_folded_not_blank")),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_model_aliases_source_not_blank")),
        sa.ForeignKeyConstraint(
            ["name"],
            ["model_profiles.name"],
            name=op.f("fk_model_aliases_name_model_profiles"),
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("folded", name=op.f("pk_model_aliases")),
    )
    with op.batch_alter_table("model_aliases", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_model_aliases_name"), ["name"], unique=False)

    op.create_table(
        "accelerator_aliases",
        sa.Column("folded", sa.String(length=128), nullable=False),
        sa.Column("alias", sa.String(length=128), nullable=False),
        sa.Column("sku", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('driver-name', 'kubernetes-label', 'spelling')", name=op.f("ck_accelerator_aliases_kind_known")
        ),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_accelerator_aliases_retired_by_an_operator")),
        sa.CheckConstraint("length(trim(alias)) > 0", name=op.f("ck_accelerator_aliases_alias_not_blank")),
        sa.CheckConstraint("length(trim(folded)) > 0", name=op.f("ck_accelerator_aliases_folded_not_blank")),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_accelerator_aliases_source_not_blank")),
        sa.ForeignKeyConstraint(
            ["sku"], ["accelerators.sku"], name=op.f("fk_accelerator_aliases_sku_accelerators"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("folded", name=op.f("pk_accelerator_aliases")),
    )
    with op.batch_alter_table("accelerator_aliases", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_accelerator_aliases_sku"), ["sku"], unique=False)

    op.create_table(
        "cloud_instances",
        sa.Column("cloud", sa.String(length=32), nullable=False),
        sa.Column("instance_type", sa.String(length=64), nullable=False),
        sa.Column("region", sa.String(length=32), nullable=False),
        sa.Column("sku", sa.String(length=64), nullable=False),
        sa.Column("accelerator_count", sa.Integer(), nullable=False),
        sa.Column("accelerator_share", sa.Double(), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=True),
        sa.Column("host_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("on_demand_usd_per_h", sa.Double(), nullable=True),
        sa.Column("spot_usd_per_h", sa.Double(), nullable=True),
        sa.Column("observed_from", sa.Date(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint(
            "accelerator_count BETWEEN 1 AND 1024", name=op.f("ck_cloud_instances_accelerator_count_in_range")
        ),
        sa.CheckConstraint(
            "accelerator_share = 1 OR accelerator_count = 1", name=op.f("ck_cloud_instances_only_one_device_is_shared")
        ),
        sa.CheckConstraint(
            "accelerator_share > 0 AND accelerator_share <= 1",
            name=op.f("ck_cloud_instances_accelerator_share_is_a_share"),
        ),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_cloud_instances_retired_by_an_operator")),
        sa.CheckConstraint(
            "host_memory_bytes BETWEEN 1073741824 AND 1000000000000000",
            name=op.f("ck_cloud_instances_host_memory_bytes_in_range"),
        ),
        sa.CheckConstraint("length(trim(cloud)) > 0", name=op.f("ck_cloud_instances_cloud_not_blank")),
        sa.CheckConstraint("length(trim(instance_type)) > 0", name=op.f("ck_cloud_instances_instance_type_not_blank")),
        sa.CheckConstraint("length(trim(region)) > 0", name=op.f("ck_cloud_instances_region_not_blank")),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_cloud_instances_source_not_blank")),
        sa.CheckConstraint("observed_from <= as_of", name=op.f("ck_cloud_instances_observed_in_order")),
        sa.CheckConstraint(
            "on_demand_usd_per_h > 0 AND on_demand_usd_per_h < 100000",
            name=op.f("ck_cloud_instances_on_demand_usd_per_h_in_range"),
        ),
        sa.CheckConstraint(
            "on_demand_usd_per_h IS NOT NULL OR spot_usd_per_h IS NOT NULL", name=op.f("ck_cloud_instances_has_a_price")
        ),
        sa.CheckConstraint(
            "spot_usd_per_h > 0 AND spot_usd_per_h < 100000", name=op.f("ck_cloud_instances_spot_usd_per_h_in_range")
        ),
        sa.CheckConstraint("vcpus >= 1", name=op.f("ck_cloud_instances_vcpus_at_least_1")),
        sa.ForeignKeyConstraint(
            ["sku"], ["accelerators.sku"], name=op.f("fk_cloud_instances_sku_accelerators"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("cloud", "instance_type", "region", name=op.f("pk_cloud_instances")),
    )
    with op.batch_alter_table("cloud_instances", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_cloud_instances_sku"), ["sku"], unique=False)

    op.create_table(
        "device_prices",
        sa.Column("sku", sa.String(length=64), nullable=False),
        sa.Column("term", sa.String(length=16), nullable=False),
        sa.Column("market", sa.String(length=16), nullable=False),
        sa.Column("usd_per_h", sa.Double(), nullable=False),
        sa.Column("min_usd_per_h", sa.Double(), nullable=True),
        sa.Column("max_usd_per_h", sa.Double(), nullable=True),
        sa.Column("clouds", sa.Integer(), nullable=True),
        sa.Column("offers", sa.Integer(), nullable=True),
        sa.Column("observed_from", sa.Date(), nullable=False),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint(
            "market IN ('typical', 'hyperscaler', 'neocloud')", name=op.f("ck_device_prices_market_known")
        ),
        sa.CheckConstraint("term IN ('on_demand', 'spot')", name=op.f("ck_device_prices_term_known")),
        sa.CheckConstraint("clouds >= 1", name=op.f("ck_device_prices_clouds_at_least_1")),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_device_prices_retired_by_an_operator")),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_device_prices_source_not_blank")),
        sa.CheckConstraint(
            "max_usd_per_h >= usd_per_h AND max_usd_per_h < 10000",
            name=op.f("ck_device_prices_max_not_below_the_median"),
        ),
        sa.CheckConstraint(
            "min_usd_per_h > 0 AND min_usd_per_h <= usd_per_h", name=op.f("ck_device_prices_min_not_above_the_median")
        ),
        sa.CheckConstraint("observed_from <= as_of", name=op.f("ck_device_prices_observed_in_order")),
        sa.CheckConstraint(
            "offers >= 1 AND (clouds IS NULL OR offers >= clouds)",
            name=op.f("ck_device_prices_offers_not_fewer_than_clouds"),
        ),
        sa.CheckConstraint("usd_per_h > 0 AND usd_per_h < 10000", name=op.f("ck_device_prices_usd_per_h_in_range")),
        sa.ForeignKeyConstraint(
            ["sku"], ["accelerators.sku"], name=op.f("fk_device_prices_sku_accelerators"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sku", "term", "market", name=op.f("pk_device_prices")),
    )
    op.create_table(
        "mig_profile_starts",
        sa.Column("board", sa.String(length=64), nullable=False),
        sa.Column("profile_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("memory_slices", sa.Integer(), nullable=False),
        sa.Column("grid_units", sa.Integer(), nullable=False),
        sa.CheckConstraint("start + memory_slices <= grid_units", name=op.f("ck_mig_profile_starts_ends_on_the_grid")),
        sa.CheckConstraint("start >= 0", name=op.f("ck_mig_profile_starts_start_at_least_0")),
        sa.ForeignKeyConstraint(
            ["board", "profile_id", "memory_slices", "grid_units"],
            ["mig_profiles.board", "mig_profiles.profile_id", "mig_profiles.memory_slices", "mig_profiles.grid_units"],
            name="fk_mig_profile_starts_profile",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("board", "profile_id", "start", name=op.f("pk_mig_profile_starts")),
    )

    # The one row that every change of the catalogue raises.
    op.execute(sa.insert(revision_table).values(id=1, revision=0, updated_at=sa.func.now()))


def downgrade() -> None:
    op.drop_table("mig_profile_starts")
    op.drop_table("device_prices")
    with op.batch_alter_table("cloud_instances", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_cloud_instances_sku"))

    op.drop_table("cloud_instances")
    with op.batch_alter_table("accelerator_aliases", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_accelerator_aliases_sku"))

    op.drop_table("accelerator_aliases")
    with op.batch_alter_table("model_aliases", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_model_aliases_name"))

    op.drop_table("model_aliases")
    op.drop_table("mig_profiles")
    op.drop_table("accelerators")
    op.drop_table("model_profiles")
    op.drop_table("mig_boards")
    op.drop_table("catalog_revision")
