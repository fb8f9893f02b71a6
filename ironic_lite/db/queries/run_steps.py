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
_NODES = ("driver", "resource_class", "run_stop")
_OWNERS = ("owner", "lessee")
_OF_RUNS = (
    sa.select(
        _RUN.uuid,
        *(_STEP[name] for name in _COLUMNS),
        *(_NODE[name] for name in _NODES),
        *(_RUN[name] for name in _OWNERS),
    )
    .select_from(
        models.runs.join(models.nodes, _NODE.uuid == _RUN.node_uuid).outerjoin(
            models.run_steps, _STEP.run_uuid == _RUN.uuid
        )
    )
    .where(_RUN.uuid.in_(sa.bindparam("k_runs", expanding=True, type_=_RUN.uuid.type)))
    .order_by(_STEP.id)
)


def of_runs(conn: Connection, runs: Sequence[str]) -> dict[str, tuple[list[Step], Row]]:
    """Return the steps of each run as planned, and driver, resource_class, run_stop of its node.

    Beside these are the owner and the lessee of the time of the run.

    :param runs: UUIDs, at most those of one page.
    """
    found: dict[str, tuple[list[Step], Row]] = {}
    for run, *row in conn.execute(_OF_RUNS, {"k_runs": list(runs)}):
        step = dict(zip(_COLUMNS, row, strict=False))
        node = dict(zip((*_NODES, *_OWNERS), row[len(_COLUMNS) :], strict=True))
        steps, _ = found.setdefault(run, ([], node))
        if step["run_uuid"] is not None:
            steps.append(cast(RunStep, step))
    return found
