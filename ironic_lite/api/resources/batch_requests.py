"""The request for a batch: its nodes, its options, and the rights of its caller on each node."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.resources import (
    node_lists,
    pages,
    provisioning,
    queries,
    runbook_access,
    verb_checks,
)
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules as forms
from ironic_lite.api.validation import schemas, shapes
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import batches as rows
from ironic_lite.db.queries import nodes, runs
from ironic_lite.domain import batches as core
from ironic_lite.domain import bmc_vocabulary, retries, runbooks, verbs

_POWER_RULE = "baremetal:node:set_power_state"
_PART = 500
_SHOWN = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A request for a batch that has passed all checks of the API.

    :ivar request: with the steps of a runbook beside its name.
    :ivar options: waves, concurrency, on_failures, between_waves, and for the conductors
        ``runbook``: uuid, owner and public of the runbook that the caller may use, or None.
    :ivar nodes: the chosen nodes in their order, with uuid, name and provision_state, and for a
        retry ``retry_of``, the run that it continues.
    """

    name: str | None
    request: Json
    options: Json
    max_failures: int
    nodes: list[Json]

    def members(self, batch: str) -> Iterator[Json]:
        """Yield the rows of the nodes."""
        place = 0
        for wave, size in enumerate(self.options["waves"]):
            for node in self.nodes[place : place + size]:
                yield {
                    **dict.fromkeys(rows.NODE_COLUMNS[1:]),
                    "batch_uuid": batch,
                    "place": place,
                    "node_uuid": node["uuid"],
                    "open_uuid": node["uuid"],
                    "name": node["name"],
                    "wave": wave,
                    "state": core.NodeState.PENDING.value,
                    "was": node["provision_state"],
                    "retry_of": node.get("retry_of"),
                    "tries": 0,
                    "owner": node["owner"],
                    "lessee": node["lessee"],
                }
                place += 1


def read(service: Service, request: Request) -> Wanted:
    """Return the batch that a request asks for; nothing is written.

    :raises errors.Error: with status 400, 403, 404, 406 or 409.
    """
    body = request.json
    shapes.check("batch", body, "", "Schema error for batch")
    if body.get("name"):
        forms.text(body["name"], "name")
    # Shares depend on the count of nodes; their form is checked before anything is read.
    core.wave_sizes(body.get("waves", []), 1)
    core.failures_allowed(body.get("max_failures", 0), 1)
    with _below("request"):
        asked, book = _read_request(service, request, body["request"])
    with _below("nodes"):
        found = _choose(service, request, body, with_traits=book is not None)
    _check_count(body, len(found))
    more = name_runs(service, request, found) if asked.get("target") == "retry" else {}
    _check_rights(request, found, asked, more)
    steps, needed = provisioning.steps_of(asked), rules(request, asked)
    for node in found:
        provisioning.demand_children(service, request, node["uuid"], steps, needed)
    for node in found if book is not None else ():
        runbooks.check(book or {}, node["uuid"], node["traits"], request.version)
    return Wanted(
        body.get("name") or None,
        asked,
        {
            "waves": core.wave_sizes(body.get("waves", []), len(found)),
            "concurrency": body.get("concurrency", core.DEFAULT_CONCURRENCY),
            "on_failures": body.get("on_failures", "pause"),
            "between_waves": body.get("between_waves", "go on"),
            "runbook": book and {name: book[name] for name in ("uuid", "owner", "public")},
        },
        core.failures_allowed(body.get("max_failures", 0), len(found)),
        found,
    )


@contextlib.contextmanager
def _below(place: str) -> Iterator[None]:
    """Name the place in the body in faults of its part, whose paths begin in that part."""
    try:
        yield
    except errors.InvalidRequest as why:
        path = str(why.facts.get("path", ""))
        if path in {"", "expect"} or path.split("/", maxsplit=1)[0] == place:
            raise
        facts = {**why.facts, "path": f"{place}/{path}"}
        raise type(why)(f"{place}: {why.message}", **facts) from None


# -- what is asked of each node --------------------------------------------------------------


def _read_request(service: Service, request: Request, given: Json) -> tuple[Json, JsonView | None]:
    """Return the request with the steps of its runbook, and the runbook."""
    if "power" in given:
        return _read_power(request, given), None
    body = schemas.provision(given)
    verb = verbs.BY_TARGET.get(body["target"])
    if verb is None:
        known = ", ".join(verbs.BY_TARGET)
        reason = f"{body['target'][:64]!r} is not a target. Valid are: {known}"
        raise errors.InvalidParameter(path="request/target", reason=reason)
    asked = verb_checks.Asked(verb, body, {}, request.version, service.conf)
    verb_checks.check_body(asked)
    if "runbook" not in body:
        return body, None
    book = runbook_access.to_use(service, request, body["runbook"])
    asked = verb_checks.with_steps(asked, book)
    verb_checks.check_body(asked)
    return {**asked.body, "runbook": body["runbook"]}, book


def _read_power(request: Request, given: Json) -> Json:
    errors.UnexpectedArguments.check(given, ("power",))
    target = given["power"]
    since = bmc_vocabulary.POWER_TARGETS.get(target) if isinstance(target, str) else None
    if since is None:
        known = ", ".join(bmc_vocabulary.POWER_TARGETS)
        reason = f"{target!r:.64} is not one of {known}"
        raise errors.InvalidParameter(path="request/power", reason=reason)
    if request.version < since:
        raise errors.NotAcceptable(what=f"The target {target}", since=since)
    return {"power": target}


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
    _check_most(len(given))
    found = node_lists.named(service, request, given, with_traits=with_traits)
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
    result = given.get("result", core.NodeState.FAILED.value)
    if result not in core.ENDED:
        known = ", ".join(core.ENDED)
        reason = f"{result!r:.32} is not one of {known}"
        raise errors.InvalidParameter(path="nodes/result", reason=reason)

    def read(conn: Connection) -> tuple[Json, list[str]]:
        return rows.get(conn, uuid, ("project",)), rows.nodes_with(conn, uuid, result)

    batch, names = service.database.read(read)
    owner = {"owner": batch["project"]}
    request.access.owned(policy.BATCH, owner, errors.NotFound(what="Batch", ident=uuid))
    read_rows = node_lists.read(service, "uuid", names, with_traits=with_traits)
    found = {row["uuid"]: row for row in read_rows}
    return [node_lists.visible(request, found, name) for name in names if name in found]


def _filtered(service: Service, request: Request, given: Json, *, with_traits: bool) -> list[Json]:
    known = queries.filters_of(queries.NODES)
    errors.UnexpectedArguments.check(given, [name for name in known if name != "conductor"])
    if not given:
        reason = "has no filter; name the nodes, or filter by a field such as resource_class"
        raise errors.InvalidParameter(path="nodes", reason=reason)
    texts = {name: _text(name, value) for name, value in given.items()}
    query = queries.listing(
        queries.NODES, texts, version=request.version, max_limit=core.MOST_NODES + 1
    )
    where = pages.narrowed(request, query.where, "node")
    return service.database.read(
        lambda conn: nodes.page(
            conn,
            columns=node_lists.COLUMNS,
            where=where,
            limit=core.MOST_NODES + 1,
            with_traits=with_traits,
        )
    )


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        reason = f"{value!r:.32} is not a text or a boolean"
        raise errors.InvalidParameter(path=f"nodes/{name}", reason=reason)
    return value


def _check_most(count: int) -> None:
    if count > core.MOST_NODES:
        reason = f"are more than {core.MOST_NODES}; divide them among batches"
        raise errors.InvalidParameter(path="nodes", reason=reason)


def _check_count(body: Json, count: int) -> None:
    if not count:
        raise errors.InvalidParameter(path="nodes", reason="must choose at least one node")
    _check_most(count)
    if body.get("expect", count) != count:
        raise errors.UnexpectedCount(found=count, expect=body["expect"])


def name_runs(
    service: Service, request: Request, found: Sequence[Json]
) -> dict[str, tuple[str, ...]]:
    """Set ``retry_of`` of nodes whose newest run is to be retried.

    :return: the rules of the steps that may run again, by node.
    """
    access = request.access
    more: dict[str, tuple[str, ...]] = {}

    def read(conn: Connection) -> None:
        for first in range(0, len(found), _PART):
            part = found[first : first + _PART]
            known = runs.newest_of(conn, [node["uuid"] for node in part])
            planned = (
                runs.steps_of(conn, [run["uuid"] for run in known.values()])
                if access.limited
                else {}
            )
            for node in part:
                run = known.get(node["uuid"])
                if run is not None:
                    retries.refuse_others(run, node, access.counted_project)
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
) -> None:
    """Refuse the batch if the caller may not send its request to one of the nodes.

    :param more: further rules of the request, by node.
    """
    for uuid, what in refused(request, found, rules(request, asked), more):
        raise errors.Forbidden(
            f"Access to {what} is refused for node {uuid}; the batch was not begun.",
            what=what,
            node=uuid,
        )


def rules(request: Request, asked: JsonView) -> tuple[str, ...]:
    """Return the rules of a batch's request, which hold for each of its nodes."""
    if "power" in asked:
        return (_POWER_RULE,)
    return provisioning.rules(asked, request.access)


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
