"""The part of a node's explanation about its batch. Pure."""

from __future__ import annotations

from ironic_lite.core import log_lines
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import batches
from ironic_lite.domain.failures import shortened
from ironic_lite.records import Run

_LONGEST = 100  # characters of a name in a sentence


def document(row: JsonView | None, run: Run | None) -> Json | None:
    """Return the batch that a node is in, or whose request has opened its newest run.

    :param row: of the newest batch with the node, from ``db.queries.batches.latest_of``.
    """
    if row is None:
        return None
    if row["state"] in batches.ENDED and (run is None or run["uuid"] != row["run_uuid"]):
        return None
    return {
        "uuid": row["batch_uuid"],
        "name": row["batch_name"],
        "state": row["batch_state"],
        "paused_by": row["paused_by"],
        "wave": row["wave"],
        "result": row["state"],
        "error": row["error"],
    }


def of(row: JsonView | None, run: Run | None) -> str:
    """Return the batch of `document` as a sentence; "" without one."""
    found = document(row, run)
    if found is None:
        return ""
    by = f" by {_short(found['paused_by'])}" if found["paused_by"] else ""
    name = f" ({_short(found['name'])})" if found["name"] else ""
    result = f"Its result in the batch {found['uuid']}{name} is {found['result']}"
    return f"{result}; the batch is {found['state']}{by}."


def _short(text: str) -> str:
    return shortened(log_lines.escaped(" ".join(text.split())), _LONGEST)
