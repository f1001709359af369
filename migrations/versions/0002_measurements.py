"""Measured serving figures, the imports that brought them, and the revision they are at.

Revision: 0002
After: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "measurement_imports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("file_name", sa.String(length=256), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("format", sa.String(length=32), nullable=False),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("landed", sa.Integer(), nullable=False),
        sa.Column("present", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "format IN ('vllm', 'guidellm', 'aiperf', 'inferencex', 'csv')",
            name=op.f("ck_measurement_imports_format_known"),
        ),
        sa.CheckConstraint("landed >= 0", name=op.f("ck_measurement_imports_landed_at_least_0")),
        sa.CheckConstraint("length(digest) = 64", name=op.f("ck_measurement_imports_digest_is_sha256")),
        sa.CheckConstraint("length(trim(file_name)) > 0", name=op.f("ck_measurement_imports_file_name_not_blank")),
        sa.CheckConstraint("present >= 0", name=op.f("ck_measurement_imports_present_at_least_0")),
        sa.CheckConstraint("rejected >= 0", name=op.f("ck_measurement_imports_rejected_at_least_0")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measurement_imports")),
    )
    revision_table = op.create_table(
        "measurement_revision",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_measurement_revision_only_row")),
        sa.CheckConstraint("revision >= 0", name=op.f("ck_measurement_revision_revision_at_least_0")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measurement_revision")),
    )
    op.create_table(
        "measurements",
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=256), nullable=False),
        sa.Column("source_url", sa.String(length=512), nullable=True),
        sa.Column("as_of", sa.String(length=64), nullable=False),
        sa.Column("engine", sa.String(length=64), nullable=False),
        sa.Column("engine_version", sa.String(length=128), nullable=True),
        sa.Column("model", sa.String(length=128), nullable=False),
        sa.Column("weights", sa.String(length=16), nullable=False),
        sa.Column("kv_cache", sa.String(length=16), nullable=False),
        sa.Column("sku", sa.String(length=64), nullable=False),
        sa.Column("mig_profile", sa.String(length=32), nullable=True),
        sa.Column("devices", sa.Integer(), nullable=False),
        sa.Column("tensor_parallel", sa.Integer(), nullable=True),
        sa.Column("pipeline_parallel", sa.Integer(), nullable=False),
        sa.Column("expert_parallel", sa.Integer(), nullable=False),
        sa.Column("attention_data_parallel", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.Double(), nullable=True),
        sa.Column("output_tokens", sa.Double(), nullable=True),
        sa.Column("load_kind", sa.String(length=16), nullable=False),
        sa.Column("load_value", sa.Double(), nullable=True),
        sa.Column("metric", sa.String(length=32), nullable=False),
        sa.Column("statistic", sa.String(length=32), nullable=True),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("trust", sa.String(length=8), nullable=False),
        sa.Column("flags", sa.String(length=256), nullable=True),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("import_id", sa.Integer(), nullable=True),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint(
            "(trust = 'own') = (import_id IS NOT NULL)", name=op.f("ck_measurements_own_rows_were_imported")
        ),
        sa.CheckConstraint(
            "load_kind IN ('concurrency', 'offline_max', 'batch', 'qps')", name=op.f("ck_measurements_load_kind_known")
        ),
        sa.CheckConstraint(
            "load_value IS NOT NULL OR load_kind = 'offline_max' OR "
            "statistic IN ('max_under_slo', 'max_under_p99_slo')",
            name=op.f("ck_measurements_load_is_stated"),
        ),
        sa.CheckConstraint(
            "metric IN ('tpot_ms', 'itl_ms', 'ttft_ms', 'e2e_latency_ms', "
            "'output_tokens_per_s', 'total_tokens_per_s', 'requests_per_s', 'samples_per_s')",
            name=op.f("ck_measurements_metric_known"),
        ),
        sa.CheckConstraint(
            "statistic IN ('mean', 'p50', 'p90', 'p95', 'p99', 'max', 'max_under_slo', 'max_under_p99_slo')",
            name=op.f("ck_measurements_statistic_known"),
        ),
        sa.CheckConstraint("trust IN ('A', 'B', 'B-', 'C', 'own')", name=op.f("ck_measurements_trust_known")),
        sa.CheckConstraint(
            "CAST(tensor_parallel AS BIGINT) * pipeline_parallel * attention_data_parallel <= devices",
            name=op.f("ck_measurements_ranks_within_devices"),
        ),
        sa.CheckConstraint(
            "attention_data_parallel BETWEEN 1 AND 65536", name=op.f("ck_measurements_attention_data_parallel_in_range")
        ),
        sa.CheckConstraint("devices BETWEEN 1 AND 65536", name=op.f("ck_measurements_devices_in_range")),
        sa.CheckConstraint("edited OR NOT retired", name=op.f("ck_measurements_retired_by_an_operator")),
        sa.CheckConstraint("edited OR import_id IS NULL", name=op.f("ck_measurements_imported_by_an_operator")),
        sa.CheckConstraint(
            "expert_parallel BETWEEN 1 AND 65536", name=op.f("ck_measurements_expert_parallel_in_range")
        ),
        sa.CheckConstraint(
            "input_tokens > 0 AND input_tokens < 1000000000", name=op.f("ck_measurements_input_tokens_positive")
        ),
        sa.CheckConstraint("length(trim(as_of)) > 0", name=op.f("ck_measurements_as_of_not_blank")),
        sa.CheckConstraint("length(trim(engine)) > 0", name=op.f("ck_measurements_engine_not_blank")),
        sa.CheckConstraint("length(trim(key)) > 0", name=op.f("ck_measurements_key_not_blank")),
        sa.CheckConstraint("length(trim(kv_cache)) > 0", name=op.f("ck_measurements_kv_cache_not_blank")),
        sa.CheckConstraint("length(trim(source)) > 0", name=op.f("ck_measurements_source_not_blank")),
        sa.CheckConstraint("length(trim(weights)) > 0", name=op.f("ck_measurements_weights_not_blank")),
        sa.CheckConstraint(
            "load_value > 0 AND load_value < 1000000000", name=op.f("ck_measurements_load_value_positive")
        ),
        sa.CheckConstraint(
            "output_tokens > 0 AND output_tokens < 1000000000", name=op.f("ck_measurements_output_tokens_positive")
        ),
        sa.CheckConstraint(
            "pipeline_parallel BETWEEN 1 AND 65536", name=op.f("ck_measurements_pipeline_parallel_in_range")
        ),
        sa.CheckConstraint(
            "tensor_parallel BETWEEN 1 AND 65536", name=op.f("ck_measurements_tensor_parallel_in_range")
        ),
        sa.CheckConstraint("value > 0 AND value < 1000000000000", name=op.f("ck_measurements_value_positive")),
        sa.ForeignKeyConstraint(
            ["import_id"],
            ["measurement_imports.id"],
            name=op.f("fk_measurements_import_id_measurement_imports"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["model"],
            ["model_profiles.name"],
            name=op.f("fk_measurements_model_model_profiles"),
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["sku"], ["accelerators.sku"], name=op.f("fk_measurements_sku_accelerators"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_measurements")),
    )
    # The one row that every change of the measurements sets.
    op.execute(sa.insert(revision_table).values(id=1, revision=0))


def downgrade() -> None:
    op.drop_table("measurements")
    op.drop_table("measurement_revision")
    op.drop_table("measurement_imports")
