"""The part of a node's explanation about a requested stop of its run. Pure."""

from __future__ import annotations

from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain.failures import shortened
from ironic_lite.domain.run_stops import Progress, Stop
from ironic_lite.records import Run


def read(node: JsonView, run: Run | None) -> Stop | None:
    """Return the stop of the run under way.

    :param node: with run_stop.
    """
    if run is None or run["ended_at"] is not None:
        return None
    return Stop.read(node["run_stop"], run["uuid"])


def document(stop: Stop | None, most: int) -> Json | None:
    """Return a stop as the document shows it.

    :param most: characters of a text.
    """
    if stop is None:
        return None
    by = stop.requester
    short = {"reason": shortened(stop.reason, most), "requester": by and shortened(by, most)}
    return {**stop.document, **short}


def of(stop: Stop | None, *, is_held: bool) -> str:
    """Return the sentence about a stop without its reason and full stop; no text without a stop.

    :param is_held: the node is held, so a stop that is done explains its state.
    """
    if stop is None or (stop.progress is Progress.DONE and not is_held):
        return ""
    by = f" by {stop.requester}" if stop.requester else ""
    if stop.progress is Progress.DONE:
        return f"The stop was requested{by}"
    place = "before its next step" if stop.after is None else f"after the step {stop.after}"
    return f"A stop ({stop.how}) {place} is requested{by}"
