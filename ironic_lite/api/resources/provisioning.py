"""PUT .../states/provision: the policy rules of a request, and the RPC of each verb.

``verb_checks`` has the checks of a request; the conductor checks again, and takes the node's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.policy.access import OWNERS, Access
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.resources.verb_checks import Asked
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, runs
from ironic_lite.domain import retries, step_planning
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import Run, RunStep, StoredStep
from ironic_lite.rpc import interface, verb_calls

RULE = "baremetal:node:set_provision_state"
BODY_LIMIT = 64 * 1024
"""Largest body: 64 MiB, written in KiB; it may contain a whole configdrive."""
_RULED = ("clean_steps", "service_steps")
"""Keys of the body that have a policy rule of their own."""
_STEPS = tuple(f"{kind}_steps" for kind in (StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE))


def rules(body: JsonView, access: Access, *, first: str = RULE) -> tuple[str, ...]:
    """Return the names of the rules that a caller must pass for this request.

    The rules of a runbook's steps were checked for its author; its user need not pass them. A plan
    also checks the steps that a request lists beside a runbook, because the plan shows them.

    :param first: the rule of the route.
    """
    if "runbook" in body and first == RULE:
        return (first,)
    named = [key for key in _RULED if body.get(key)]
    if isinstance(body.get("retry"), dict) and body["retry"].get("waive"):
        named.append("waive_steps")
    single = (rule for key in _STEPS for rule in policy.of_steps(body.get(key)))
    return (first, *(f"{RULE}:{key}" for key in named), *access.written(single))


def rules_of_steps(run: Run, steps: Sequence[RunStep], access: Access) -> tuple[str, ...]:
    """Return the names of the rules for running the steps of this run once more.

    Steps that drivers or a runbook have chosen for a cleaning need none, as in the first run.
    """
    stored = run["listed"] or {}
    if stored.get("runbook") or not stored.get("requested", True):
        return ()
    chosen = [f"{RULE}:{run['verb']}_steps"] if f"{run['verb']}_steps" in _RULED else []
    listed = [dict(step) for step in steps]
    return (*chosen, *access.written(policy.of_steps(listed)))


def demand_steps_of_retry(service: Service, request: Request, ident: str, node_uuid: str) -> None:
    """Refuse a retry to callers who may not run its steps, or whose project has none.

    :raises errors.NothingToRetry: the run was for former users of the node.
    """
    if not request.access.limited:
        return

    def read(conn: Connection) -> tuple[Run | None, list[RunStep]]:
        run = runs.latest(conn, node_uuid)
        if run is not None:
            node = nodes.get(conn, node_uuid, ("provision_state", *OWNERS))
            retries.refuse_others(run, node, request.access.counted_project)
        return run, [] if run is None else runs.steps(conn, run["uuid"])

    run, rows = service.database.read(read)
    if run is None:
        return
    more = rules_of_steps(run, rows, request.access)
    if more:
        node_lookup.fetch(service, request, ident, ("uuid",), rules=more)
    steps = (run["listed"] or {}).get("steps") or ()
    demand_children(service, request, node_uuid, steps, (RULE, *more))


def steps_of(body: JsonView) -> list[JsonView]:
    """Return the steps that a request names, or its runbook."""
    return [step for key in _STEPS for step in body.get(key) or ()]


def demand_children(
    service: Service,
    request: Request,
    node_uuid: str,
    steps: Sequence[JsonView],
    rules: Sequence[str],
) -> None:
    """Refuse steps for child nodes to callers without the rights of the request on each child.

    A child has the owner of its parent, but may be leased to another project.

    :param rules: those of the request.
    :raises errors.Forbidden: naming the first rule that the caller does not pass.
    """
    wanted = [step for step in steps if step_planning.for_children(cast(StoredStep, step))]
    if not wanted or not request.access.limited:
        return
    limits = [{str(one).lower() for one in step.get(step_planning.LIMIT) or ()} for step in wanted]
    where = {"parent_node": node_uuid}
    columns = ("uuid", *OWNERS)
    found = service.database.read(lambda conn: nodes.page(conn, columns=columns, where=where))
    for child in found:
        if any(not limit or child["uuid"] in limit for limit in limits):
            request.access.node(child, errors.Forbidden(what=rules[0]), *rules)


# -- asking the conductor --------------------------------------------------------------------


def send(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    """Send the verb to the conductor; return the UUID of its run when it is accepted.

    :raises errors.Error: the conductor's refusal.
    """
    return verb_calls.send(
        conductor, who, event=asked.verb.event, node_uuid=asked.node["uuid"], body=asked.body
    )
