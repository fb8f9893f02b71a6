"""PUT .../states/provision: the policy rules of a request, and the RPC of each verb.

``verb_checks`` has the checks of a request; the conductor checks again, and takes the node's lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite.api import policy
from ironic_lite.api.policy.access import Access
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.resources.verb_checks import Asked
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import runs
from ironic_lite.domain.steps import StepKind
from ironic_lite.records import Run, RunStep
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


def rules_of_retry(conn: Connection, node_uuid: str, access: Access) -> tuple[str, ...]:
    """Return the names of further rules of a retry: those of the steps that may run again."""
    run = runs.latest(conn, node_uuid)
    return () if run is None else rules_of_steps(run, runs.steps(conn, run["uuid"]), access)


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
    """Refuse a retry to callers who may not run its steps."""
    more = service.database.read(lambda conn: rules_of_retry(conn, node_uuid, request.access))
    if more:
        node_lookup.fetch(service, request, ident, ("uuid",), rules=more)


# -- asking the conductor --------------------------------------------------------------------


def send(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    """Send the verb to the conductor; return the UUID of its run when it is accepted.

    :raises errors.Error: the conductor's refusal.
    """
    return verb_calls.send(
        conductor, who, event=asked.verb.event, node_uuid=asked.node["uuid"], body=asked.body
    )
