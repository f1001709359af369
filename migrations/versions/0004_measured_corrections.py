"""What measurements say beside the fitted coefficients of a calibration: sites, and the reach of intervals.

Revision: 0004
After: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    for name in ("sites", "reach"):
        op.add_column("calibrations", sa.Column(name, sa.JSON(), server_default="[]", nullable=False))


def downgrade() -> None:
    for name in ("reach", "sites"):
        op.drop_column("calibrations", name)
