"""Read the facts that explain a node's state: at most four statements, one more if it is held.

One more reads the last refused ramdisk of a node that waits.

The methods of interfaces are read once a minute, by one more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from ironic_lite import errors
from ironic_lite.api.policy import BATCH, NODE
from ironic_lite.api.policy.access import OWNERS, target
from ironic_lite.api.resources import (
    bmc_orders,
    node_holds,
    node_lookup,
    provisioning,
    run_documents,
    run_logs,
    run_times,
    verb_checks,
)
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock, text_masking
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import batches, events, runs
from ironic_lite.domain import (
    activities,
    failures,
    offers,
    reasons,
    retries,
    states,
    step_planning,
    verbs,
)
from ironic_lite.domain.activities import StepActivity, stepping
from ironic_lite.domain.failures import Failure
from ironic_lite.domain.holds import Hold
from ironic_lite.domain.run_stops import Stop
from ironic_lite.domain.states import Kind, State
from ironic_lite.records import Event, Run, RunStep, StoredStep

_READ = "baremetal:node:why:get"


def show(service: Service, request: Request, ident: str, orders: bmc_orders.Orders) -> Json:
    """Return the explanation of a node's state, as the caller may use its verbs and orders.

    :raises errors.NodeNotFound, errors.Forbidden: as `node_lookup.fetch`.
    """
    checked = (*verb_checks.COLUMNS, *bmc_orders.COLUMNS, *OWNERS, "generation")
    columns = tuple(dict.fromkeys((*reasons.COLUMNS, *checked, *text_masking.FIELDS)))
    node = _masked(node_lookup.fetch(service, request, ident, columns))
    node_lookup.add_tag(request, node)
    run, steps = service.database.read(lambda conn: runs.newest_with_steps(conn, node["uuid"]))
    held = node_holds.of(service, request, node)
    offered = tuple(_offers(service, request, node, run, steps, held=held))
    if run is not None and not run_documents.visible(request, run, _READ):
        run, steps = None, []  # of an earlier owner, and so like one that was removed
    elif run is not None and not request.access.reads(_READ, run):
        stop = Stop.read(node["run_stop"], run["uuid"])
        node["run_stop"] = stop and stop.without_reason.text
    failure = failures.of(node, run, None)
    operation, earlier = _operation(service, request, node, failure)
    facts = reasons.Facts(
        node=node,
        run=run,
        steps=steps,
        log=_log(service, failure),
        operation=operation,
        earlier=earlier,
        overdue=_overdue(service, node, run, steps),
        refused=_refused(service, node),
        held=held,
        batch=_batch(service, request, node),
        offers=offered,
        orders=tuple(orders.offers(request, node, held)),
        settings=service.conf.conductor,
        now=clock.now(),
    )
    return reasons.document(facts)


def _masked(node: Json) -> Json:
    """Return a node with its texts masked, as the errors of its runs and events are."""
    hide = text_masking.of_node(node, prose=True)
    texts = ("last_error", "maintenance_reason")
    return {**node, **{name: node[name] and hide(node[name]) for name in texts}}


def _log(service: Service, failure: Failure | None) -> list[str]:
    """Return the newest lines that drivers have stored for a run that failed."""
    if failure is None or failure.run is None:
        return []
    return run_logs.tail(service.database, failure.run, failures.LINES)


def _batch(service: Service, request: Request, node: Json) -> Json | None:
    """Return the newest batch with a node, None without one that the caller may see."""
    found = service.database.read(lambda conn: batches.latest_of(conn, node["uuid"]))
    if found is None:
        return None
    owners = target(BATCH, {"owner": found.pop("project")})
    return found if request.access.allows("baremetal:batch:get", owners) else None


def _operation(
    service: Service, request: Request, node: Json, failure: Failure | None
) -> tuple[Event | None, Run | None]:
    """Return the event of the operation that has set last_error, and its run, if it was one."""
    if failure is None or failure.run is not None:
        return None, None
    found = service.database.read(lambda conn: events.failures(conn, node["uuid"]))
    for event, run in found:
        told = (event["data"] or {}).get("error") == node["last_error"]
        if told and request.access.reads(_READ, event):
            mine = run is not None and request.access.reads(_READ, run)
            return event, run if mine else None
    return None, None


def _refused(service: Service, node: Json) -> Event | None:
    """Return the last ramdisk that was refused since the node waits."""
    since, uuid = node["provision_updated_at"] or node["created_at"], node["uuid"]
    if states.kind(State(node["provision_state"])) is not Kind.WAIT:
        return None
    return service.database.read(lambda conn: events.refused_agent(conn, uuid, since))


def _overdue(service: Service, node: Json, run: Run | None, steps: list[RunStep]) -> Json | None:
    """Return the step under way if it takes unusually long."""
    under_way = [step for step in steps if step["state"] in ("running", "waiting")][:1]
    if run is None or not under_way:
        return None
    return run_times.RunTimes(service, run, under_way, node).overdue


def _offers(
    service: Service,
    request: Request,
    node: Json,
    run: Run | None,
    steps: list[RunStep],
    *,
    held: Sequence[Hold],
) -> Iterator[offers.Offer]:
    """Yield each verb that the state offers, with the refusal that this caller would get."""
    state = State(node["provision_state"])
    for name in verbs.offered(state, request.version):
        verb = verbs.BY_TARGET[name]
        asked = verb_checks.Asked(verb, {}, node, request.version, service.conf, held)
        refusals = [
            *_forbidden(request, node, provisioning.rules({}, request.access)),
            *verb_checks.node_refusals(asked),
        ]
        if verb.event == "retry":
            refusals += _refusals_of_retry(request, node, run, steps)
        yield offers.Offer(
            name,
            verbs.leads_to(
                verb, state, target=node["target_provision_state"], retired=bool(node["retired"])
            ),
            _ends_first(node, state) if verb.event == "abort" else None,
            refusals[0] if refusals else None,
        )


def _refusals_of_retry(
    request: Request, node: Json, run: Run | None, steps: list[RunStep]
) -> Iterator[errors.Error]:
    """Yield the refusals of a retry by the rules of its steps, and by its run."""
    if run is not None:
        yield from _forbidden(
            request, node, provisioning.rules_of_steps(run, steps, request.access)
        )
    activity = activities.of(node["provision_state"])
    kind = activity.kind if isinstance(activity, StepActivity) else ""
    try:
        if run is not None:
            retries.refuse_others(run, node, request.access.counted_project)
        retries.of_run(run, steps, state=node["provision_state"], kind=str(kind))
    except errors.NothingToRetry as why:
        yield why


def _forbidden(request: Request, node: Json, rules: Iterable[str]) -> Iterator[errors.Error]:
    owners = target(NODE, node)
    for rule in rules:
        if not request.access.allows(rule, owners):
            yield errors.Forbidden(what=rule)


def _ends_first(node: Json, state: State) -> str | None:
    """Return the step that an abort does not interrupt."""
    activity = stepping(state)
    step = node[activity.column] if activity is not None and activity.column else None
    if states.kind(state) is not Kind.WAIT or not step:
        return None
    stored = cast(StoredStep, step)
    return None if step_planning.interruptible(stored) else f"{step['interface']}.{step['step']}"
