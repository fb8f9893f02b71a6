"""The steps of several runs, by one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import sqlalchemy as sa

from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models
from ironic_lite.records import RunStep

Step = RunStep
_STEP, _RUN, _NODE = models.run_steps.c, models.runs.c, models.nodes.c
_COLUMNS = ("run_uuid", "kind", "ordinal", "interface", "step", "state", "attempt", "started_at")
_MACHINE = ("driver", "resource_class")
_OF_RUNS = (
    sa.select(*(_STEP[name] for name in _COLUMNS), *(_NODE[name] for name in _MACHINE))
    .select_from(
        models.run_steps.join(models.runs, _RUN.uuid == _STEP.run_uuid).join(
            models.nodes, _NODE.uuid == _RUN.node_uuid
        )
    )
    .where(_STEP.run_uuid.in_(sa.bindparam("k_runs", expanding=True, type_=_STEP.run_uuid.type)))
    .order_by(_STEP.id)
)


def of_runs(conn: Connection, runs: Sequence[str]) -> dict[str, tuple[list[Step], Row]]:
    """Return the steps of each run as planned, and driver and resource_class of its node.

    :param runs: UUIDs, at most those of one page; runs without steps are left out.
    """
    found: dict[str, tuple[list[Step], Row]] = {}
    for row in conn.execute(_OF_RUNS, {"k_runs": list(runs)}):
        step = dict(zip(_COLUMNS, row, strict=False))
        machine = dict(zip(_MACHINE, row[len(_COLUMNS) :], strict=True))
        found.setdefault(step["run_uuid"], ([], machine))[0].append(cast(RunStep, step))
    return found
