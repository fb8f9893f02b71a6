"""What operators keep beside nodes."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.models import column
from ironic_lite.db.models.column import metadata

deploy_templates = sa.Table(
    "deploy_templates",
    metadata,
    column.id_(),
    column.uuid(unique=True, nullable=False),
    column.text("name", unique=True, nullable=False),
    # A list of steps: they are read and written with their template, and nobody asks for one alone.
    column.json("steps", nullable=False),
    column.json("extra"),
    *column.made(),
    **column.OPTIONS,
)
