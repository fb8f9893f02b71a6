"""Endpoints for the doctor: checks of this conductor, and of one node. They change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite.conductor.tasks import Tasks
from ironic_lite.core import text_masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json
from ironic_lite.doctor import conductor, node, rounds
from ironic_lite.drivers import deadline

_EXAMINER = rounds.Examiner()
_REPLY_SECONDS = 1.0
"""Time that is kept for the reply, if the caller waits shorter than usual."""


class Examination:
    """Both calls run the checks on threads of their own, and answer in time if one hangs."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    def examine(self, context: Context) -> list[Json]:
        """Return the findings about this conductor."""
        runtime = self.tasks.runtime
        workers = runtime.workers
        key = runtime.evidence_key.current
        place = conductor.Place(
            runtime.conf,
            runtime.database,
            workers.busy,
            workers.size,
            None if key is None else key.name,
        )
        where = f"conductor {runtime.host}"
        return _examined(rounds.lines(where, conductor.TABLE, place), conductor.SECONDS)

    def examine_node(self, context: Context, *, node_uuid: str) -> list[Json]:
        """Return the findings about a node and the way to its BMC."""
        task = self.tasks.look(context, node_uuid)
        subject = node.Subject(self.tasks.runtime.conf, task)
        where = f"node {task.node.name or node_uuid}"
        hide = text_masking.of_node(task.node, prose=True)
        lines = rounds.lines(where, node.table_of(subject), subject, hide)
        with deadline.until(node.SECONDS), deadline.limit(node.REQUEST_SECONDS):
            return _examined(lines, node.SECONDS)


def _examined(lines: Sequence[rounds.Line], seconds: float) -> list[Json]:
    limit = max(_REPLY_SECONDS, min(seconds, deadline.left() - _REPLY_SECONDS))
    return [found.as_json() for found in _EXAMINER.examine(lines, limit)]
