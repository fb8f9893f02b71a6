"""Plans of verbs: the faults of a request and the steps that it would run.

The API's part has the checks of ``verb_checks``; the conductor plans the steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.api.resources.verb_checks import Asked
from ironic_lite.api.validation import step_lists
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries.usual import UsualTimes
from ironic_lite.domain import list_faults, verbs
from ironic_lite.domain.step_times import Usual
from ironic_lite.domain.steps import StepKind

MOST_DURATIONS = 50
"""Names of steps whose usual durations a plan has."""
_LISTS = {f"{kind}_steps": kind for kind in (StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE)}
_SENT = (*_LISTS, "disable_ramdisk", "rescue_password", "retry")
"""Arguments that a conductor plans with; a configdrive changes no step."""


def fault(why: errors.Error) -> Json:
    """Return a refusal as a fault of a plan."""
    return {"path": why.facts.get("path"), "code": why.code, "text": why.message}


def arguments(asked: Asked) -> Json:
    """Return the arguments for the conductor: those of the verb whose form is right."""
    return {
        key: value
        for key, value in asked.body.items()
        if key in _SENT
        and key in asked.verb.allows
        and (key not in _LISTS or step_lists.well_formed(_LISTS[key], value))
    }


def unplanned() -> Json:
    """Return the conductor's part of a plan for a verb that does not exist."""
    return {
        **{"faults": [], "steps": [], "ramdisk": None, "restarts": None, "destroys": None},
        **{"complete": False, "incomplete": "No such target exists."},
    }


def document(
    target: str,
    leads_to: str | None,
    *,
    body: JsonView,
    refusals: Sequence[errors.Error],
    planned: Json,
    usual: Mapping[tuple[str, str], Usual | None],
) -> Json:
    """Return the document of a plan.

    :param body: as the client has sent it.
    :param refusals: of the API.
    :param planned: the conductor's part.
    :param usual: durations by interface and step.
    """
    faults = _merged([fault(why) for why in refusals], planned["faults"])
    steps = [_step(row, usual, body) for row in planned["steps"]]
    return {
        "target": target,
        "accepted": not faults,
        "leads_to": leads_to,
        "faults": [{**one, "path": _path(one["path"], body)} for one in faults],
        "steps": steps,
        "ramdisk": planned["ramdisk"],
        "restarts": planned["restarts"],
        "destroys": planned["destroys"],
        "seconds": _total(steps, complete=bool(planned["complete"])),
        "complete": planned["complete"],
        "incomplete": planned["incomplete"],
    }


def durations(
    times: UsualTimes, node: JsonView, steps: Iterable[JsonView]
) -> dict[tuple[str, str], Usual | None]:
    """Return the usual durations of steps on machines like a node's, by interface and step.

    One statement. A client may send any names; those that no interface offers are not read.
    """
    offered = (row for row in steps if row["by"] is not None)
    names = dict.fromkeys((row["interface"], row["step"]) for row in offered)
    chosen = itertools.islice(names, MOST_DURATIONS)
    return times.of_all(chosen, node["driver"], node["resource_class"])


def _merged(own: list[Json], theirs: list[Json]) -> list[Json]:
    """Join the faults of API and conductor; the conductor repeats some checks of the API."""
    codes = {one["code"] for one in own if one["path"] is None}
    paths = [one["path"] for one in own if one["path"] is not None]
    rest = [
        one
        for one in theirs
        if not (one["path"] is None and one["code"] in codes)
        and not any(_is_below(one["path"], path) for path in paths)
    ]
    return [*own, *rest][: list_faults.MOST_FAULTS]


def _is_below(path: str | None, above: str) -> bool:
    return path is not None and (path == above or path.startswith(f"{above}/"))


def _path(path: str | None, body: JsonView) -> str | None:
    """Return the place in the body; None for a fault of the node."""
    if path is None:
        return None
    place = path.partition(" or ")[0]
    key = place.partition("/")[0]
    if "runbook" in body and key in _LISTS:
        return "runbook"
    absent = key not in body and place != key
    return None if absent or key not in verbs.BODY_KEYS else place


def _step(row: JsonView, usual: Mapping[tuple[str, str], Usual | None], body: JsonView) -> Json:
    found = usual.get((row["interface"], row["step"]))
    origin = row["from"]
    if "runbook" in body and origin["what"] == "request":
        origin = {"what": "runbook", "name": body["runbook"]}
    return {
        **row,
        "args": masking.mask(row["args"]),
        "from": origin,
        "usual_seconds": None if found is None else found.document,
    }


def _total(steps: Sequence[JsonView], *, complete: bool) -> Json | None:
    """Return the usual duration of all steps; None if one of them is not known."""
    known: list[Any] = [row["usual_seconds"] for row in steps if row["usual_seconds"] is not None]
    if not known or len(known) < len(steps):
        return None
    return {
        "p50": round(sum(one["p50"] for one in known), 3),
        "p90": round(sum(one["p90"] for one in known), 3),
        "samples": min(one["samples"] for one in known),
    }
