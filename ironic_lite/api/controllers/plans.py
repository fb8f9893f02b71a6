"""Plans: what a verb would do to a node, without doing it.

Ironic does not have plans: every version of this API has them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, TypedDict

from ironic_lite import errors
from ironic_lite.api.controllers import node_holds, provisioning
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.validation import schemas
from ironic_lite.core import masking, metrics
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries.step_durations import UsualTimes
from ironic_lite.domain import fields, step_lists, verbs
from ironic_lite.domain.fields import DeployInterfaces
from ironic_lite.domain.states import State
from ironic_lite.domain.step_times import Duration, Usual
from ironic_lite.domain.steps import DESTROYED, StepKind
from ironic_lite.domain.verb_refusals import VerbRequest

# Plans of verbs: the faults of a request and the steps that it would run.
#
# The API's part has the checks of ``provisioning``; the conductor plans the steps.

MOST_DURATIONS = 50
"""Names of steps whose usual durations a plan has."""
_LISTS = {f"{kind}_steps": kind for kind in (StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE)}
_SENT = (*_LISTS, "disable_ramdisk", "rescue_password", "retry")
"""Arguments that a conductor plans with; a configdrive changes no step."""


class RefusalDocument(TypedDict):
    """A refusal; ``path`` is its place in the request, None for a fault of the node."""

    path: str | None
    code: str
    text: str


class StepOrigin(TypedDict):
    """The list that a step comes from, such as a runbook."""

    what: str
    name: str | None


Destroyed = Annotated[str, tuple(DESTROYED)]
PlannedStep = TypedDict(
    "PlannedStep",
    {
        "ordinal": int,
        "interface": str,
        "step": str,
        "args": Json,
        "priority": float,
        "abortable": bool,
        "by": Annotated[str | None, ("ramdisk", "bmc", "service", "children", None)],
        "known": str | None,
        "destroys": list[Destroyed] | None,
        "restarts": int | None,
        "lasting": bool,
        "from": StepOrigin,
        "usual_seconds": Duration | None,
    },
)


class PlanDocument(TypedDict):
    """A plan: the faults of a request, and the steps that it would run."""

    target: str
    accepted: bool
    leads_to: str | None
    faults: list[RefusalDocument]
    steps: list[PlannedStep]
    ramdisk: bool | None
    restarts: int | None
    destroys: list[Destroyed] | None
    seconds: Duration | None
    complete: bool
    incomplete: str | None
    deploy_interface: DeployInterfaces | None


def fault_document(why: errors.Error) -> RefusalDocument:
    """Return a refusal as a fault of a plan."""
    return {"path": why.facts.get("path"), "code": why.code, "text": why.message}


def plan_arguments(asked: VerbRequest) -> Json:
    """Return the arguments for the conductor: those of the verb whose form is right."""
    return {
        key: value
        for key, value in asked.body.items()
        if key in _SENT
        and key in asked.verb.allows
        and (key not in _LISTS or schemas.are_steps_well_formed(_LISTS[key], value))
    }


def unplanned() -> Json:
    """Return the conductor's part of a plan for a verb that does not exist."""
    return {
        **{"faults": [], "steps": [], "ramdisk": None, "restarts": None, "destroys": None},
        **{"complete": False, "incomplete": "No such target exists."},
    }


def plan_document(
    target: str,
    leads_to: str | None,
    *,
    body: JsonView,
    refusals: Sequence[errors.Error],
    planned: Json,
    usual: Mapping[tuple[str, str], Usual | None],
    deploy: DeployInterfaces | None,
) -> PlanDocument:
    """Return the document of a plan.

    :param body: as the client has sent it.
    :param refusals: of the API.
    :param planned: the conductor's part.
    :param usual: durations by interface and step.
    :param deploy: both deploy interfaces, if autodetect chooses.
    """
    faults = _merged([fault_document(why) for why in refusals], planned["faults"])
    steps = [_step(row, usual, body) for row in planned["steps"]]
    return {
        "target": target,
        "accepted": not faults,
        "leads_to": leads_to,
        "faults": [{**fault, "path": _path(fault["path"], body)} for fault in faults],
        "steps": steps,
        "ramdisk": planned["ramdisk"],
        "restarts": planned["restarts"],
        "destroys": planned["destroys"],
        "seconds": _total(steps),
        "complete": planned["complete"],
        "incomplete": planned["incomplete"],
        "deploy_interface": deploy,
    }


def read_durations(
    times: UsualTimes, node: JsonView, steps: Iterable[JsonView]
) -> dict[tuple[str, str], Usual | None]:
    """Return the usual durations of steps on machines like a node's, by interface and step.

    One statement. A client may send any names; those that no interface offers are not read.
    """
    offered = (row for row in steps if row["by"] is not None)
    names = dict.fromkeys((row["interface"], row["step"]) for row in offered)
    chosen = itertools.islice(names, MOST_DURATIONS)
    return times.of_all(chosen, node["driver"], node["resource_class"])


def _merged(own: list[RefusalDocument], theirs: list[RefusalDocument]) -> list[RefusalDocument]:
    """Join the faults of API and conductor; the conductor repeats some checks of the API."""
    codes = {fault["code"] for fault in own if fault["path"] is None}
    paths = [fault["path"] for fault in own if fault["path"] is not None]
    rest = [
        fault
        for fault in theirs
        if not (fault["path"] is None and fault["code"] in codes)
        and not any(_is_below(fault["path"], path) for path in paths)
    ]
    return [*own, *rest][: step_lists.MOST_FAULTS]


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


def _step(
    row: PlannedStep, usual: Mapping[tuple[str, str], Usual | None], body: JsonView
) -> PlannedStep:
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


def _total(steps: Sequence[PlannedStep]) -> Duration | None:
    """Return the usual duration of all steps; None if one of them is not known."""
    known = [row["usual_seconds"] for row in steps if row["usual_seconds"] is not None]
    if not known or len(known) < len(steps):
        return None
    return {
        "p50": round(sum(duration["p50"] for duration in known), 3),
        "p90": round(sum(duration["p90"] for duration in known), 3),
        "samples": min(duration["samples"] for duration in known),
    }


_DEPLOYS = frozenset(verb.target for verb in verbs.TABLE if verb.event in ("deploy", "rebuild"))
_RULE = "baremetal:node:plan"
_RUNS = "baremetal:node:runs:get"
_COLUMNS = (
    *(*provisioning.CHECKED_COLUMNS, *fields.DEPLOY_COLUMNS),
    *("resource_class", "target_provision_state", "generation"),
)
_SECONDS = 10.0
"""Time limit of the conductor's part."""


class Plans(expose.Controller):
    """/v1/nodes/{node}/plan: a request for a verb, checked and planned."""

    @expose.expose("POST", "/nodes/{ident}/plan", body=expose.WHOLE, limit=provisioning.BODY_LIMIT)
    def plan(self, request: Request, ident: str) -> PlanDocument:
        """Return the plan of a verb: 200 if the request would be accepted now, else 422.

        Nothing is changed, locked or asked of a machine. The body is that of
        ``PUT .../states/provision``.
        """
        if isinstance(request.json, dict) and not request.json.get("target"):
            node_lookup.fetch(self.service, request, ident, ("uuid",), rules=(_RULE,))
        body = schemas.provision(request.json)
        rules = provisioning.needed_rules(body, request.access, first=_RULE)
        if body["target"] == "retry":
            rules = (*rules, _RUNS)  # the plan shows the steps of the failed run
        with_traits = "runbook" in body
        node = node_lookup.fetch(
            self.service, request, ident, _COLUMNS, with_traits=with_traits, rules=rules
        )
        if body["target"] == "retry":
            provisioning.demand_steps_of_retry(self.service, request, ident, node["uuid"])
        node_lookup.add_tag(request, node)
        found = self._plan(request, body, node)
        if not found["accepted"]:
            request.answer.status = HTTPStatus.UNPROCESSABLE_ENTITY
        metrics.BOARD.count("plans_total", str(found["accepted"]).lower())
        return found

    def _plan(self, request: Request, body: Json, node: JsonView) -> PlanDocument:
        target, names = body["target"], self.service.conf.autodetect_deploy_interfaces
        choose = functools.partial(fields.deploy_interfaces, node, anew=target in _DEPLOYS)
        document = functools.partial(plan_document, target, body=body)
        try:
            verb = provisioning.find_verb(target, node, request.version)
        except (errors.InvalidState, errors.NodeLocked) as why:
            deploy = choose(names)
            return document(None, refusals=[why], planned=unplanned(), usual={}, deploy=deploy)
        held = node_holds.of(self.service, request, node)
        asked = VerbRequest(verb, body, node, request.version, self.service.conf, held)
        find = functools.partial(provisioning.to_use, self.service, request)
        asked, refusals = provisioning.all_refusals(asked, find)
        conductor = self.service.conductor_of(node, timeout=_SECONDS)
        planned = conductor.plan_provision(
            request.who, node_uuid=node["uuid"], target=target, body=plan_arguments(asked)
        )
        leads_to = _end_of(verb, node)
        usual = read_durations(self.service.usual, node, planned["steps"])
        deploy = choose(planned.get("autodetect", names))  # older conductors do not tell
        return document(leads_to, refusals=refusals, planned=planned, usual=usual, deploy=deploy)


def _end_of(verb: verbs.Verb, node: JsonView) -> State | None:
    """Return the state in which the node rests after the verb; None if it cannot start."""
    state, goal = State(node["provision_state"]), node["target_provision_state"]
    if not verbs.possible(verb, state):
        return None
    return verbs.leads_to(verb, state, target=goal, retired=node["retired"])
