"""Batches: one request for many nodes, in waves, with a bounded number of failures.

Ironic does not have batches: every version of this API has them. The conductors carry them out.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from ironic_lite import errors
from ironic_lite.api.controllers import node_holds, provisioning
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request, Suspension
from ironic_lite.api.policy import BATCH, NODE, Rule
from ironic_lite.api.policy.access import OWNERS, target
from ironic_lite.api.policy.node_rules import ANY_READER, MEMBER, READER, any_of, of
from ironic_lite.api.resources import bmc_orders, idempotency, node_lookup, pages, queries, waits
from ironic_lite.api.service import Extension, FleetGauge, Service
from ironic_lite.api.validation import rules as forms
from ironic_lite.api.validation import schemas, shapes, types
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.metrics import Family
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, nodes
from ironic_lite.db.queries import holds as hold_rows
from ironic_lite.domain import history, holds, retries, step_lists, verbs
from ironic_lite.domain.holds import Hold
from ironic_lite.domain.verb_refusals import VerbRequest
from ironic_lite.features.batches import rows, rules
from ironic_lite.features.batches.rules import BatchState, NodeState

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

# The request for a batch: its nodes, its options, and the rights of its caller on each node.

_POWER_RULE = "baremetal:node:set_power_state"
_PART = 500
Keep = Callable[[str, errors.Error], object]
"""Takes the UUID of an unfit node and the reason, or raises the reason."""


def _refuse(_node: str, why: errors.Error) -> None:
    raise why


def read_request(service: Service, request: Request) -> rows.Wanted:
    """Return the batch that a request asks for; nothing is written.

    :raises errors.Error: with status 400, 403, 404, 406 or 409.
    """
    body = request.json
    shapes.check("batch", body, "", "Schema error for batch")
    if body.get("name"):
        forms.text(body["name"], "name")
    # Shares depend on the count of nodes; their form is checked before anything is read.
    rules.wave_sizes(body.get("waves", []), 1)
    rules.failures_allowed(body.get("max_failures", 0), 1)
    with rules.below("request"):
        asked, book = _read_request(service, request, body["request"])
    with rules.below("nodes"):
        found = _choose(service, request, body, with_traits=book is not None)
    rules.check_count(body, len(found))
    fit, left_out = _check_nodes(service, request, found, asked, book)
    rules.check_fit(body, fit)
    options = rules.options(body, len(fit))
    options["runbook"] = book and {name: book[name] for name in ("uuid", "owner", "public")}
    most = rules.failures_allowed(body.get("max_failures", 0), len(fit))
    return rows.Wanted(body.get("name") or None, asked, options, most, fit, left_out)


def _check_nodes(
    service: Service, request: Request, found: list[Json], asked: Json, book: JsonView | None
) -> tuple[list[Json], list[Json] | None]:
    """Return the nodes that can get the request, and why each other one is left out.

    :raises errors.Error: a node may not get the request, and the batch leaves none out.
    """
    unfit: dict[str, errors.Error] = {}
    leave_out = request.json.get("unfit") == rules.LEAVE_OUT
    keep: Keep = unfit.setdefault if leave_out else _refuse
    more = name_runs(service, request, found, keep) if asked.get("target") == "retry" else {}
    _check_rights(request, found, asked, more, keep)
    steps, needed = provisioning.steps_of(asked), needed_rules(request, asked)
    for node in found:
        try:
            provisioning.demand_children(service, request, node["uuid"], steps, needed)
            if book is not None:
                step_lists.check_runbook(book, node["uuid"], node["traits"], request.version)
        except (errors.Forbidden, errors.InvalidParameter) as why:
            keep(node["uuid"], why)
    if not leave_out:
        return found, None
    _find_unfit(service, request, asked, found, keep)
    left_out = [node for node in found if node["uuid"] in unfit]
    fit = [node for node in found if node["uuid"] not in unfit]
    return fit, [rules.reason(node, unfit[node["uuid"]]) for node in left_out]


# -- what is asked of each node --------------------------------------------------------------


def _read_request(service: Service, request: Request, given: Json) -> tuple[Json, JsonView | None]:
    """Return the request with the steps of its runbook, and the runbook."""
    if "power" in given:
        return rules.read_power(given, request.version), None
    body = schemas.provision(given)
    verb = verbs.BY_TARGET.get(body["target"])
    if verb is None:
        known = ", ".join(verbs.BY_TARGET)
        reason = f"{body['target'][:64]!r} is not a target. Valid are: {known}"
        raise errors.InvalidParameter(path="request/target", reason=reason)
    asked = VerbRequest(verb, body, {}, request.version, service.conf)
    provisioning.check_body(asked)
    if "runbook" not in body:
        return body, None
    book = provisioning.to_use(service, request, body["runbook"])
    asked = provisioning.with_steps(asked, book)
    provisioning.check_body(asked)
    return {**asked.body, "runbook": body["runbook"]}, book


# -- nodes -----------------------------------------------------------------------------------


def _choose(service: Service, request: Request, body: Json, *, with_traits: bool) -> list[Json]:
    given = body["nodes"]
    if isinstance(given, list):
        return _named(service, request, given, with_traits=with_traits)
    if "expect" not in body:
        reason = "is mandatory with a filter: the number of nodes that it must choose"
        raise errors.InvalidParameter(path="expect", reason=reason)
    if "batch" in given:
        return _of_batch(service, request, given, with_traits=with_traits)
    return _filtered(service, request, given, with_traits=with_traits)


def _named(
    service: Service, request: Request, given: Sequence[object], *, with_traits: bool
) -> list[Json]:
    """Return the nodes of a list of UUIDs and names.

    :raises errors.InvalidParameter: there are too many, or a node comes twice.
    """
    rules.check_most(len(given))
    found = node_lookup.named_nodes(service, request, given, with_traits=with_traits)
    seen: set[str] = set()
    for index, row in enumerate(found):
        if row["uuid"] in seen:
            reason = f"node {row['uuid']} is in the list twice"
            raise errors.InvalidParameter(path=f"nodes/{index}", reason=reason)
        seen.add(row["uuid"])
    return found


def _of_batch(service: Service, request: Request, given: Json, *, with_traits: bool) -> list[Json]:
    errors.UnexpectedArguments.check(given, ("batch", "result"))
    uuid = forms.uuid(given["batch"], "nodes/batch")
    result = given.get("result", rules.NodeState.FAILED.value)
    if result not in rules.ENDED:
        known = ", ".join(rules.ENDED)
        reason = f"{result!r:.32} is not one of {known}"
        raise errors.InvalidParameter(path="nodes/result", reason=reason)

    def read(conn: Connection) -> tuple[Json, list[str]]:
        return rows.get(conn, uuid, ("project",)), rows.nodes_with(conn, uuid, result)

    batch, names = service.database.read(read)
    owner = {"owner": batch["project"]}
    request.access.owned(BATCH, owner, errors.NotFound(what="Batch", ident=uuid))
    read_rows = node_lookup.read_nodes(service, "uuid", names, with_traits=with_traits)
    found = {row["uuid"]: row for row in read_rows}
    return [node_lookup.visible_node(request, found, name) for name in names if name in found]


def _filtered(service: Service, request: Request, given: Json, *, with_traits: bool) -> list[Json]:
    known = queries.filters_of(queries.NODES)
    errors.UnexpectedArguments.check(given, [name for name in known if name != "conductor"])
    if not given:
        reason = "has no filter; name the nodes, or filter by a field such as resource_class"
        raise errors.InvalidParameter(path="nodes", reason=reason)
    texts = {name: rules.filter_text(name, value) for name, value in given.items()}
    query = queries.listing(
        queries.NODES, texts, version=request.version, max_limit=rules.MOST_NODES + 1
    )
    where = pages.narrowed(request, query.where, "node")
    return service.database.read(
        lambda conn: nodes.page(
            conn,
            columns=node_lookup.LISTED_COLUMNS,
            where=where,
            limit=rules.MOST_NODES + 1,
            with_traits=with_traits,
        )
    )


def name_runs(
    service: Service, request: Request, found: Sequence[Json], keep: Keep = _refuse
) -> dict[str, tuple[str, ...]]:
    """Set ``retry_of`` of nodes whose newest run is to be retried.

    :return: the rules of the steps that may run again, by node.
    """
    access = request.access
    more: dict[str, tuple[str, ...]] = {}

    def read(conn: Connection) -> None:
        for first in range(0, len(found), _PART):
            part = found[first : first + _PART]
            known = rows.newest_of(conn, [node["uuid"] for node in part])
            planned = (
                rows.steps_of(conn, [run["uuid"] for run in known.values()])
                if access.limited
                else {}
            )
            for node in part:
                run = known.get(node["uuid"])
                if run is not None:
                    try:
                        retries.refuse_others(run, node, access.counted_project)
                    except errors.NothingToRetry as why:
                        keep(node["uuid"], why)
                    node["retry_of"] = run["uuid"]
                    steps = planned.get(run["uuid"], ())
                    more[node["uuid"]] = provisioning.rules_of_steps(run, steps, access)

    service.database.read(read)
    return more


def _check_rights(
    request: Request,
    found: Sequence[Json],
    asked: JsonView,
    more: Mapping[str, tuple[str, ...]],
    keep: Keep,
) -> None:
    """Refuse the batch if the caller may not send its request to one of the nodes.

    :param more: further rules of the request, by node.
    """
    for uuid, what in refused(request, found, needed_rules(request, asked), more):
        text = f"Access to {what} is refused for node {uuid}; the batch was not begun."
        keep(uuid, errors.Forbidden(text, what=what, node=uuid))


def needed_rules(request: Request, asked: JsonView) -> tuple[str, ...]:
    """Return the rules of a batch's request, which hold for each of its nodes."""
    if "power" in asked:
        return (_POWER_RULE,)
    return provisioning.needed_rules(asked, request.access)


def refused(
    request: Request,
    found: Sequence[JsonView],
    names: Sequence[str],
    more: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[str, str]]:
    """Yield each node that the caller may see but not use in this way, and the rule.

    :param names: rules to pass for all nodes, beside those of ``more`` for single ones.
    :raises errors.NodeNotFound: the caller may not see one of the nodes.
    """
    for node in found if request.access.limited else ():
        uuid = node["uuid"]
        missing = errors.NodeNotFound(node=uuid)
        try:
            request.access.node(dict(node), missing, *names, *more.get(uuid, ()))
        except errors.Forbidden as why:
            yield uuid, str(why.facts.get("what", "the request"))


# The plan of a batch: the nodes that would refuse its request as they are now.

_PLANNED_COLUMNS = tuple(
    name
    for name in dict.fromkeys(
        ("uuid", "name", "provision_state", "disable_power_off", *provisioning.CHECKED_COLUMNS)
    )
    if name != "held"  # the holds are read
)
_SHOWN_REFUSALS = 20


def plan_refusals(service: Service, request: Request, wanted: rows.Wanted) -> Json:
    """Return the number of nodes that would refuse the request, and the first of them.

    A lock is no refusal, because the batch waits for its end. The conductors check more.

    :return: ``count``, and ``first`` with uuid, name, code and text of at most 20 nodes.
    """
    found = [
        (node, why)
        for node, held in _planned(service, request, wanted.nodes)
        for why in itertools.islice(_refusals(service, request, wanted.request, node, held), 1)
    ]
    return {"count": len(found), "first": [rules.reason(*one) for one in found[:_SHOWN_REFUSALS]]}


def _find_unfit(
    service: Service, request: Request, asked: JsonView, found: Sequence[Json], keep: Keep
) -> None:
    """Find the nodes in open batches, and those that would refuse the request as they are now.

    The others get ``retired`` and ``protected``, which a plan shows.
    """
    uuids, shown = [node["uuid"] for node in found], _shown_batches(request)
    for taken in service.database.read(lambda conn: rows.taken(conn, uuids)):
        keep(taken.node, rows.refusal([taken], shown))
    known = {node["uuid"]: node for node in found}
    for node, held in _planned(service, request, found):
        known[node["uuid"]].update({name: node[name] for name in rules.MARKS})
        for why in itertools.islice(_refusals(service, request, asked, node, held), 1):
            keep(node["uuid"], why)


def _shown_batches(request: Request) -> Callable[[str | None], bool]:
    """Return the function that tells whether the caller may see the batches of a project."""
    rule = "baremetal:batch:get"
    return lambda owner: request.access.allows(rule, target(BATCH, {"owner": owner}))


def _planned(
    service: Service, request: Request, found: Sequence[JsonView]
) -> Iterator[tuple[Json, Sequence[Hold]]]:
    for first in range(0, len(found), _PART):
        uuids = [node["uuid"] for node in found[first : first + _PART]]
        read = functools.partial(_read_planned, uuids=uuids, project=node_holds.reader(request))
        yield from service.database.read(read)


def _read_planned(
    conn: Connection, uuids: Sequence[str], project: str | None
) -> list[tuple[Json, Sequence[Hold]]]:
    """Return nodes in this order, each with its holds in force."""
    where = {"uuid": uuids, "include_children": True}
    known = {row["uuid"]: row for row in nodes.page(conn, columns=_PLANNED_COLUMNS, where=where)}
    held = hold_rows.in_force_of(conn, uuids, project)
    return [(known[uuid], held.get(uuid, ())) for uuid in uuids if uuid in known]


def _refusals(
    service: Service, request: Request, body: JsonView, node: Json, held: Sequence[Hold]
) -> Iterator[errors.Error]:
    if "power" in body:
        yield from _of_power(node, held, body["power"])
        return
    verb = verbs.BY_TARGET[body["target"]]
    asked = VerbRequest(verb, body, node, request.version, service.conf, held)
    for why in provisioning.node_refusals(asked):
        if not isinstance(why, errors.NodeLocked):
            yield why


def _of_power(node: Json, held: Sequence[Hold], goal: str) -> Iterator[errors.Error]:
    try:
        bmc_orders.check_power_state(node, goal)
    except errors.Error as why:
        yield why
    refusal = holds.refusal(node["uuid"], held, holds.POWER, goal)
    if refusal is not None:
        yield refusal


# Changes of the state of a batch: pause, resume and abort, and the rights that they need.

_STOP_RULE = "baremetal:node:runs:stop"
_NO_RIGHT = rules.rights_lost(
    "the caller who resumed the batch may not send its request to the node"
)


def without_right(
    service: Service, request: Request, batch: JsonView, body: JsonView
) -> rules.Lost:
    """Return the nodes for which the caller may not resume a batch, or abort its runs.

    The state of the batch is not asked, because it may be paused until the change is written.

    :param batch: with uuid, and the request if rules bind the caller.
    :param body: of ``PUT /batches/{ident}/state``.
    """
    if not request.access.limited:
        return rules.Lost([], [])
    if body["target"] == "resume":
        return rules.Lost(_lost_by_resume(service, request, batch), [])
    if body.get("runs") == "abort":
        found = _present_nodes(service, batch, rules.UNDER_WAY)
        return rules.Lost([], _unusable(request, found, (_STOP_RULE,), {}))
    return rules.Lost([], [])


def _lost_by_resume(service: Service, request: Request, batch: JsonView) -> list[str]:
    """Return the nodes to start for which the caller may not send the request of a batch.

    A pause keeps no right: the caller who resumes a batch needs the rights of its request.

    :param batch: with uuid and request.
    """
    asked = dict(batch["request"])
    if "runbook" in asked:
        try:
            provisioning.to_use(service, request, asked["runbook"])
        except errors.Error:  # without the runbook, its steps are those of the caller
            del asked["runbook"]
    found = _present_nodes(service, batch, (rules.NodeState.PENDING, rules.NodeState.STARTING))
    more = name_runs(service, request, found) if asked.get("target") == "retry" else {}
    return _unusable(request, found, needed_rules(request, asked), more)


def _present_nodes(
    service: Service, batch: JsonView, states: Sequence[rules.NodeState]
) -> list[Json]:
    return service.database.read(lambda conn: rows.with_owners(conn, batch["uuid"], states))


def _unusable(
    request: Request,
    found: Sequence[Json],
    names: Sequence[str],
    more: Mapping[str, tuple[str, ...]],
) -> list[str]:
    """Return the nodes that the caller may not see, or not use in this way."""
    lost = []
    for node in found:
        try:
            lost += [uuid for uuid, _ in refused(request, [node], names, more)]
        except errors.NodeNotFound:
            lost.append(node["uuid"])
    return lost


# -- the change ---------------------------------------------------------------------------------


def change_batch(
    conn: Connection, request: Request, row: Json, body: Json, rights: rules.Lost
) -> tuple[Json, rules.Counts]:
    """Write the change of a batch with its event; return its row and counts afterwards."""
    uuid, now, target_ = row["uuid"], clock.now(), body["target"]
    counts = rows.counts(conn, uuid)
    values = rules.CHANGES[target_](request.who, row, counts, body)
    if not values:
        return row, counts
    if values.get("state") == BatchState.RUNNING:
        for node in rights.skipped:
            rows.skip_pending(conn, uuid, now, _NO_RIGHT, nodes=[node])
        rows.refuse_starting(conn, uuid, rights.skipped)
    if "abort_runs" in values:
        rows.mark_aborts(conn, uuid, rights.kept)
    if values.get("state") == BatchState.ABORTED:
        rows.skip_pending(conn, uuid, now, rules.SKIPPED_BY_ABORT)
    values["updated_at"] = now
    rows.update(conn, uuid, values)
    row.update(values)
    if target_ != "resume" or "state" in values:
        by = {"by": request.who.user}
        events.add(conn, [_event(request, row, _EVENTS[target_], by)])
    return row, rows.counts(conn, uuid)


_EVENTS = {"pause": "batch_paused", "resume": "batch_resumed", "abort": "batch_aborted"}
_LIMIT = 8 * 1024  # KiB of a body, which may have a configdrive
_FIRST = 20  # nodes of the first wave that a plan names
_PAUSE = 1.0  # seconds between two looks of a request that waits
_WITHOUT_REQUEST = tuple(name for name in rows.COLUMNS if name not in ("request", "context"))


shapes.SCHEMAS["batch"], shapes.SCHEMAS["batch_state"] = rules.SCHEMA, rules.STATE_SCHEMA


def _read_states(value: str, path: str) -> list[str]:
    """Read the states of batches ``a,b,c``."""
    known = tuple(rules.BatchState)
    return queries.read_several(
        value, path, lambda each, at: queries.read_one_of(each, at, "a batch's state", known)
    )


def _read_results(value: str, path: str) -> list[str]:
    """Read the states of nodes in batches ``a,b,c``."""
    known = tuple(rules.NodeState)
    return queries.read_several(
        value, path, lambda each, at: queries.read_one_of(each, at, "a node's result", known)
    )


BATCHES = queries.RESOURCES["BATCHES"] = queries.Resource(
    rules.FIELDS,
    (
        queries.Filter("state", 1, _read_states),
        queries.Filter("project", 1, queries.read_text),
        queries.Filter("requester", 1, queries.read_text),
        queries.Filter("name", 1, queries.read_text),
    ),
    fields_since=1,
    detail_since=None,
    direction="desc",
)
BATCHES_NODES = queries.RESOURCES["BATCHES_NODES"] = queries.Resource(
    rules.NODE_FIELDS,
    (queries.Filter("result", 1, _read_results), queries.Filter("wave", 1, rules.read_number)),
    fields_since=1,
    detail_since=None,
)


_OF_BATCH = waits.Words(
    {word: word for word in (waits.ENDED, "done", "aborted", "paused", "running")},
    "ended, done, aborted, paused or running",
    waits.ENDED,
)


def _read_wait(wait: str | None, until: str | None, conf: Configuration) -> waits.Wait | None:
    """Return the wait for a batch that the arguments ask for, None without one.

    :raises errors.InvalidParameter: an argument cannot be read, or ``until`` lacks ``wait``.
    """
    return waits.of(wait, until, conf, _OF_BATCH)


class Batches(expose.Controller):
    """The batches, and the nodes of each."""

    @expose.expose("GET", "/batches", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of batches, the newest first: by three statements at most."""
        query = pages.query(self.service, request, BATCHES)
        where = dict(query.where)
        owner = request.access.only(where.get("project"))
        if owner is not None:
            where["project"] = owner

        page: Json = {"marker_id": query.marker, "limit": query.limit}
        page |= {"columns": _columns("request" in query.fields), "direction": query.direction}
        shown = self.service.database.read(lambda conn: rows.page(conn, where=where, **page))
        keys = [one["uuid"] for one in shown]
        chosen = [{name: one[name] for name in query.fields} for one in shown]
        return pages.body(request, query, "batches", chosen, keys)

    @expose.expose("GET", "/batches/{ident}", types.word, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return a batch; with ``wait``, when it is in a state that ``until`` names."""
        given, wait = waits.split(request.query, self.service.conf, _read_wait)
        chosen = queries.one(BATCHES, given, version=request.version)

        def read(conn: Connection) -> Json:
            columns = _columns(chosen is None or "request" in chosen)
            row = self._get(conn, request, ident, columns)
            return rows.documents(conn, [(row, rows.counts(conn, row["uuid"]))])[0]

        found = self.service.database.read(read)
        if wait is not None:
            _check_wait(request, wait, found)
        _add_tag(request, found)
        return {name: found[name] for name in chosen or found}

    @expose.expose("GET", "/batches/{ident}/nodes", types.word, raw_query=True)
    def members(self, request: Request, ident: str) -> Json:
        """Return a page of the nodes of a batch with their results, in the order of their start.

        A lessee of a node sees the code of its error, but not the text.
        """
        query = pages.query(self.service, request, BATCHES_NODES)

        def read(conn: Connection) -> list[Json]:
            row = self._get(conn, request, ident)
            where: Json = {**query.where, "batch_uuid": row["uuid"]}
            if "result" in where:
                where["state"] = where.pop("result")
            members = rows.NODES.page(
                conn,
                where=where,
                marker_id=query.marker,
                direction=query.direction,
                limit=query.limit,
            )
            hidden = _unreadable(conn, request, members)
            return [rules.member_document(row, row["node_uuid"] in hidden) for row in members]

        found = self.service.database.read(read)
        keys = [one["uuid"] for one in found]
        chosen = [{name: one[name] for name in query.fields} for one in found]
        return pages.body(request, query, "nodes", chosen, keys)

    @expose.expose(
        "POST",
        "/batches",
        types.boolean,
        status=HTTPStatus.CREATED,
        body=expose.WHOLE,
        limit=_LIMIT,
    )
    def create(self, request: Request, plan: bool = False) -> Json:
        """Begin a batch; with ``plan``, return what it would be with status 200."""
        wanted = read_request(self.service, request)
        row = _new_row(request, wanted)
        members = list(wanted.members(row["uuid"]))
        counts = rules.first_counts(wanted.options["waves"])
        uuids, shown = [node["uuid"] for node in wanted.nodes], _shown_batches(request)
        if plan:
            self.service.database.read(lambda conn: rows.refuse_taken(conn, uuids, shown))
            request.answer.status = HTTPStatus.OK
            refused = plan_refusals(self.service, request, wanted)
            first = [{"uuid": one["node_uuid"], "name": one["name"]} for one in members]
            size = min(wanted.options["waves"][0], _FIRST)
            planned: Json = {"uuid": None, "state": "planned", "first_wave": first[:size]}
            planned |= {"refused": refused, **rules.fitness(wanted.nodes, wanted.left_out)}
            return {**rules.document(row, counts), **planned}
        if not wanted.nodes:
            raise errors.Conflict(
                "No node can get the request; ?plan=true shows the reason of each node."
            )

        def write(conn: Connection) -> None:
            rows.take_out(conn, uuids, clock.now())
            rows.refuse_taken(conn, uuids, shown)
            rows.add(conn, row, members)
            events.add(conn, [_event(request, row, "batch_started", {"nodes": len(members)})])

        idempotency.write_change(self.service, request, write)
        some = rules.fitness(wanted.nodes, wanted.left_out, _SHOWN_REFUSALS)
        request.call.notes[idempotency.UNSHOWN] = some
        location = f"{request.base}/v1/batches/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        _add_tag(request, row)
        return {**rules.document(row, counts), **rules.fitness(wanted.nodes, wanted.left_out)}

    @expose.expose("PUT", "/batches/{ident}/state", types.word, body=expose.WHOLE)
    def set_state(self, request: Request, ident: str) -> Json:
        """Pause, resume or abort a batch; a repetition changes nothing."""
        seen = self.service.database.read(
            lambda conn: self._get(conn, request, ident, _columns(request.access.limited))
        )
        body = request.json
        shapes.check("batch_state", body, "", "Schema error for state")
        if "runs" in body and body["target"] != "abort":
            raise errors.InvalidParameter(path="runs", reason="belongs to the target abort")
        if "max_failures" in body and body["target"] != "resume":
            reason = "belongs to the target resume"
            raise errors.InvalidParameter(path="max_failures", reason=reason)

        rights = without_right(self.service, request, seen, body)

        def write(conn: Connection) -> Json:
            row = self._get(conn, request, ident, _columns(True), lock_row=True)
            return rows.documents(conn, [change_batch(conn, request, row, body, rights)])[0]

        found = idempotency.write_change(self.service, request, write)
        _add_tag(request, found)
        return {**found, "refused": {"count": len(rights.kept)}} if body.get("runs") else found

    @expose.expose("DELETE", "/batches/{ident}", types.word, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Delete a batch that has ended; the runs of its nodes stay."""

        def write(conn: Connection) -> None:
            row = self._get(conn, request, ident, lock_row=True)
            if row["ended_at"] is None:
                raise errors.Conflict(
                    f"Batch {row['uuid']} has not ended. Abort it, and wait for the end of its "
                    "runs.",
                    batch=row["uuid"],
                )
            rows.delete(conn, row["uuid"])
            events.add(conn, [_event(request, row, "batch_deleted", {})])

        idempotency.write_change(self.service, request, write)

    def _get(
        self,
        conn: Connection,
        request: Request,
        ident: str,
        columns: tuple[str, ...] = _WITHOUT_REQUEST,
        *,
        lock_row: bool = False,
    ) -> Json:
        """Return a batch that the caller may use in this way.

        :param columns: with ``project``; the request may be large, and is encrypted.
        :param lock_row: lock the row for a change, which If-Match may bind to a version.
        :raises errors.NotFound: it does not exist, or the caller may not see it.
        :raises errors.PreconditionFailed: it has changed since the tag in If-Match.
        """
        if not forms.uuid_like(ident):
            raise errors.NotFound(what="Batch", ident=ident)
        known = forms.uuid(ident, "batch")
        row = rows.get(conn, known, columns, lock_row=lock_row)
        missing = errors.NotFound(what="Batch", ident=known)
        request.access.owned(BATCH, {"owner": row["project"]}, missing)
        wanted = request.if_match if lock_row else frozenset()
        if wanted and not wanted & {"*", rules.tag(row)}:
            raise errors.PreconditionFailed(
                f"Batch {known} has changed: its ETag is {rules.tag(row)} now. Read it again.",
                batch=known,
            )
        return row


def _event(request: Request, row: JsonView, kind: str, data: Json) -> Json:
    """Return an event of a batch; its UUID stands in place of a node's."""
    about = {"batch": row["uuid"], "name": row["name"], **data}
    told = history.event_row(request.who, row["uuid"], kind, about)
    return {**told, "owner": row["project"]}


def _add_tag(request: Request, row: JsonView) -> None:
    request.answer.headers.append(("ETag", rules.tag(row)))


# -- documents -------------------------------------------------------------------------------


def _new_row(request: Request, wanted: rows.Wanted) -> Json:
    return {
        **dict.fromkeys(rows.COLUMNS[1:]),
        "uuid": idempotency.subject_uuid(request),
        "name": wanted.name,
        "state": BatchState.RUNNING.value,
        "request": wanted.request,
        "options": wanted.options,
        "wave": 0,
        "max_failures": wanted.max_failures,
        "forgiven": 0,
        "abort_runs": False,
        "requester": request.who.user,
        "project": request.who.project,
        "context": request.who.as_dict(),
        "created_at": clock.now(),
    }


def _columns(request: bool) -> tuple[str, ...]:
    return (*_WITHOUT_REQUEST, "request") if request else _WITHOUT_REQUEST


def _unreadable(conn: Connection, request: Request, members: Sequence[JsonView]) -> set[str]:
    """Return the nodes whose errors are hidden from the caller, as in their runs."""
    failed = {row["node_uuid"] for row in members if row["error"]}
    if not failed or not request.access.limited:
        return set()
    where = {"uuids": sorted(failed), "include_children": True}
    found = nodes.page(conn, columns=("uuid", *OWNERS), where=where)
    return failed - {
        row["uuid"]
        for row in found
        if request.access.allows("baremetal:node:runs:get", target(NODE, row))
    }


def _check_wait(request: Request, wait: waits.Wait, found: JsonView) -> None:
    """Return if the batch is in a state that the request waits for.

    :raises errors.EndedOtherwise: it has ended otherwise, or is paused.
    :raises errors.NotYet: it may still come.
    """
    state, over = found["state"], found["ended_at"] is not None
    # An aborted batch has ended when the runs under way have.
    if (state in wait.until and (over or state != BatchState.ABORTED)) or (
        over and waits.ENDED in wait.until
    ):
        return
    if over or state == BatchState.PAUSED:
        what = "has ended as" if over else "is"
        by = f" by {found['paused_by']}" if found["paused_by"] else ""
        raise errors.EndedOtherwise(
            f"Batch {found['uuid']} {what} {state}{by}, not {' or '.join(wait.until)}. "
            f"GET /v1/batches/{found['uuid']}/nodes?result=failed,refused lists its failures.",
            batch=found["uuid"],
        )
    left = wait.seconds - request.call.watch.seconds
    request.call.later = Suspension(left, pause=_PAUSE) if left > 0 else None
    raise errors.NotYet(
        what=f"Batch {found['uuid']}",
        until=" or ".join(wait.until),
        seconds=f"{wait.seconds:g}",
        state=state,
    )


# What other routes show of batches.

_FAMILIES = {
    "batches": Family("Batches that have not ended.", ("state",)),
    "batch_nodes": Family("Nodes of batches that have not ended.", ("state",)),
}
_OPEN_STATES = (BatchState.RUNNING, BatchState.PAUSED, BatchState.ABORTED)


def gauges(conn: Connection) -> list[FleetGauge]:
    """Return the numbers of open batches, and of nodes in them, by state."""
    whole, members = rows.by_state(conn)
    found = {
        "batches": [((str(state),), whole.get(state, 0)) for state in _OPEN_STATES],
        "batch_nodes": [((str(state),), members.get(state, 0)) for state in NodeState],
    }
    return [FleetGauge(name, _FAMILIES[name], values) for name, values in found.items()]


def attention(service: Service, request: Request) -> list[Json] | None:
    """Return the open batches that the caller may list, the newest first."""
    try:
        owner = request.access.only(kind=BATCH)
    except errors.Forbidden:
        return None
    where: Json = {"open": True, **({"project": owner} if owner is not None else {})}
    page: Json = {"columns": _WITHOUT_REQUEST, "direction": "desc", "limit": rules.MOST_OPEN}
    found = service.database.read(lambda conn: rows.page(conn, where=where, **page))
    return [rules.brief(one) for one in found]


def fact(service: Service, request: Request, node: Json) -> Json | None:
    """Return the newest batch with a node, None without one that the caller may see.

    :return: what an explanation shows, with ``run_uuid``, and ``ended`` of the node in the batch.
    """
    found = service.database.read(lambda conn: rows.latest_of(conn, node["uuid"]))
    if found is None or not _reads(request, found.pop("project")):
        return None
    return {**found, "ended": found["state"] in rules.ENDED}


def of_run(service: Service, request: Request, run: JsonView) -> str | None:
    """Return the batch in which a run was begun, None without one that the caller may see."""
    found = service.database.read(lambda conn: rows.of_run(conn, run["uuid"]))
    return found[0] if found is not None and _reads(request, found[1]) else None


def _reads(request: Request, project: str | None) -> bool:
    return request.access.allows("baremetal:batch:get", target(BATCH, {"owner": project}))


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.answers import OBJECT, OF_WAIT  # noqa: PLC0415
    from ironic_lite.api.openapi.parts import Schemas  # noqa: PLC0415

    batch: Json = {"$ref": "#/components/schemas/Batches"}
    changed: Json = {
        "anyOf": [
            batch,
            {"type": "object", "properties": {"refused": OBJECT}, "required": ["refused"]},
        ]
    }
    return {
        "GET /batches/{ident}": OF_WAIT,
        "POST /batches": Schemas(
            batch, takes=shapes.schema("batch"), also={200: OBJECT}, refusals=(404,)
        ),
        "PUT /batches/{ident}/state": Schemas(
            changed, takes=shapes.schema("batch_state"), refusals=(412,)
        ),
        "DELETE /batches/{ident}": Schemas(refusals=(412,)),
    }


EXTENSION = Extension(
    (Batches,),
    (
        Rule(
            "baremetal:batch:get",
            any_of(READER, of("reader", "batch.owner")),
            "Show a batch and its nodes.",
            ("GET /batches/{ident}", "GET /batches/{ident}/nodes"),
            BATCH,
        ),
        Rule(
            "baremetal:batch:list", ANY_READER, "List the own project's batches.", ("GET /batches",)
        ),
        Rule("baremetal:batch:list_all", READER, "List all batches."),
        Rule(
            "baremetal:batch:create",
            any_of(MEMBER, "role:member"),
            "Begin a batch; the rules of its request are checked for each node.",
            ("POST /batches",),
        ),
        Rule(
            "baremetal:batch:update",
            any_of(MEMBER, of("member", "batch.owner")),
            "Pause, resume, abort and delete a batch.",
            ("PUT /batches/{ident}/state", "DELETE /batches/{ident}"),
            BATCH,
        ),
    ),
    _answers,
    moved=rows.take_out,
    gauges=gauges,
    attention={"batches": attention},
    facts={"batch": fact},
    of_runs={"batch": of_run},
)
