"""States of a node: provision state and its verbs, power, boot mode, RAID and console."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, TypedDict, cast

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.controllers import node_holds
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import OWNERS, Access
from ironic_lite.api.resources import bmc_orders, crud, guards, node_lookup, preferred, views, waits
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, schemas
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, resources, runs
from ironic_lite.domain import (
    holds,
    node_locks,
    raid,
    retries,
    step_lists,
    verb_refusals,
    verbs,
    vocabulary,
)
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind
from ironic_lite.domain.verb_refusals import Refusals, VerbRequest
from ironic_lite.records import Run, RunStep, StoredStep

# Find a runbook, and check what the caller may do with it.

_USE = "baremetal:runbook:use"


def to_use(service: Service, request: Request, word: str) -> Json:
    """Return a runbook that the caller may run on nodes.

    :param word: its UUID or name.
    :raises errors.RunbookNotFound: it does not exist, or the caller may not see it.
    """

    def look(_conn: Connection, row: Json) -> None:
        judge(request, row, _USE, public=True)

    return crud.fetch(service, resources.RUNBOOKS, rules.ident(word, "runbook"), look)


def judge(request: Request, row: Json, *names: str, public: bool = False) -> None:
    """Refuse an operation that the caller may not do on a runbook.

    :param names: rules to pass; without names, the rule of the route.
    :param public: treat a public runbook as the caller's own.
    :raises errors.RunbookNotFound: the caller may not see it.
    :raises errors.Forbidden: the caller may see it, but a rule forbids the operation.
    """
    own = {**row, "owner": request.access.project} if public and row["public"] else row
    missing = errors.RunbookNotFound(runbook=row["uuid"])
    request.access.owned(policy.RUNBOOK, own, missing, names)


# Checks of a request for a provision verb that need no conductor.
#
# Each check yields its refusals. `check_request` raises the first of all checks, in Ironic's
# order. `all_refusals` returns all, and ``node_refusals`` those that do not depend on the body.
# ``NODE_CHECKS`` and ``BODY_CHECKS`` list the checks by what they read.

CHECKED_COLUMNS = (
    *node_locks.COLUMNS,
    *("driver", "conductor_group", "protected", "retired", "held", "data_state"),
    *verbs.MAINTENANCE_COLUMNS,
)
"""Columns of a node that the checks read."""

_SHOWN = 64
_STEP_KINDS = {
    f"{kind}_steps": kind for kind in (StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE)
}
# A version without the key gets 400, as for a verb that never has the key, instead of 406.
_GATED_AS_FOREIGN = frozenset({"configdrive"})


Check = Callable[[VerbRequest], Refusals]
FindRunbook = Callable[[str], JsonView]
"""Returns all columns of a runbook that the caller may use."""


def _caught(call: Callable[..., object], *args: Any, **named: Any) -> Refusals:
    """Yield the refusal that a call raises."""
    try:
        call(*args, **named)
    except errors.Error as why:
        yield why


# -- checks of the node and the verb ---------------------------------------------------------


def _check_version(asked: VerbRequest) -> Refusals:
    if asked.version < asked.verb.since:
        yield errors.NotAcceptable(what=f"The target {asked.verb.target}", since=asked.verb.since)


def _check_state(asked: VerbRequest) -> Refusals:
    if not verbs.possible(asked.verb, asked.state):
        yield from _check_lock(asked)
        yield _verb_impossible(asked.verb.target, asked.node, asked.version)


def _state_version(asked: VerbRequest) -> Refusals:
    since = asked.verb.state_since.get(asked.state, 1)
    if asked.version < since:
        what = f"The target {asked.verb.target} in state {asked.state}"
        yield errors.NotAcceptable(what=what, since=since)


def _check_lock(asked: VerbRequest) -> Refusals:
    yield from _caught(guards.check_unlocked, asked.node)


# -- checks of the body ----------------------------------------------------------------------


def _check_configdrive(asked: VerbRequest) -> Refusals:
    if "configdrive" in asked.body:
        yield from _check_key(asked, "configdrive")
        given = asked.body["configdrive"]
        yield from _caught(schemas.configdrive, given, version=asked.version)


def _check_runbook(asked: VerbRequest) -> Refusals:
    if "runbook" in asked.body:
        yield from _new_enough(asked, "runbook")
        yield from _check_key(asked, "runbook")
        for key in ("clean_steps", "service_steps", "disable_ramdisk"):
            if key in asked.body:
                reason = f"cannot be given together with {key}: the runbook has its own"
                yield errors.InvalidParameter(path="runbook", reason=reason)


def _check_ramdisk(asked: VerbRequest) -> Refusals:
    if "disable_ramdisk" in asked.body:
        yield from _new_enough(asked, "disable_ramdisk")
        yield from _check_key(asked, "disable_ramdisk")


def _check_keys(asked: VerbRequest) -> Refusals:
    """Check that each key belongs to the verb, and that the verb has the keys it needs."""
    for key in asked.body:
        if key != "target":
            yield from _new_enough(asked, key)
            yield from _check_key(asked, key)
    if asked.verb.needs and not any(key in asked.body for key in asked.verb.needs):
        yield errors.MissingParameter(path=" or ".join(asked.verb.needs))


def _check_key(asked: VerbRequest, key: str) -> Refusals:
    since = asked.verb.allows.get(key)
    if since is None or (key in _GATED_AS_FOREIGN and asked.version < since):
        owners = ", ".join(verbs.owners(key))
        reason = f"belongs to the targets {owners}, not to {asked.verb.target}"
        yield errors.InvalidParameter(path=key, reason=reason)


def _new_enough(asked: VerbRequest, key: str) -> Refusals:
    """Refuse a key that is newer than the request's version."""
    since = min(verbs.BY_TARGET[owner].allows[key] for owner in verbs.owners(key))
    own = asked.verb.allows.get(key, since)
    if key not in _GATED_AS_FOREIGN and asked.version < max(since, own):
        yield errors.NotAcceptable(what=f"The parameter {key}", since=max(since, own))


def _check_steps(asked: VerbRequest) -> Refusals:
    for key, kind in _STEP_KINDS.items():
        if key in asked.body:
            disallowed = asked.conf.api[f"disallow_{kind}_steps"]
            yield from schemas.step_refusals(kind, asked.body[key], disallowed=disallowed)


# -- the checks, in Ironic's order -----------------------------------------------------------

_BEFORE_RUNBOOK: tuple[Check, ...] = (
    _check_version,
    _check_state,
    verb_refusals.of_retirement,
    _check_configdrive,
    _check_runbook,
    _check_ramdisk,
    _check_keys,
    _state_version,
)
_AFTER_RUNBOOK: tuple[Check, ...] = (
    _check_steps,
    verb_refusals.of_maintenance,
    verb_refusals.of_holds,
    verb_refusals.of_protection,
)
"""Checks that see the steps of a runbook as if the request had listed them."""
_BY_CONDUCTOR: tuple[Check, ...] = (
    _check_lock,
    verb_refusals.of_data,
    verb_refusals.of_configured_maintenance,
    verb_refusals.of_abort,
)
"""Checks that `check_request` leaves to the conductor, which waits for the lock."""

BODY_CHECKS: tuple[Check, ...] = (
    _check_configdrive,
    _check_runbook,
    _check_ramdisk,
    _check_keys,
    _check_steps,
)
"""Checks that read the body; the others are in `NODE_CHECKS`."""
NODE_CHECKS: tuple[Check, ...] = tuple(
    one for one in (*_BEFORE_RUNBOOK, *_AFTER_RUNBOOK, *_BY_CONDUCTOR) if one not in BODY_CHECKS
)
"""Checks that read the node, the verb and the version: the same for every body."""


def find_verb(target: str, node: JsonView, version: int) -> verbs.Verb:
    """Return the row of a target.

    :raises errors.InvalidState: the verb does not exist.
    :raises errors.NodeLocked: the verb does not exist, and the node is locked.
    """
    found = verbs.BY_TARGET.get(target)
    if found is None:
        guards.check_unlocked(node)
        raise _verb_impossible(target[:_SHOWN], node, version)
    return found


def _verb_impossible(target: str, node: JsonView, version: int) -> errors.InvalidState:
    """Return the refusal of a verb in this state; its message lists the possible verbs."""
    state = State(node["provision_state"])
    facts = {"verb": target, "node": node["uuid"], "state": state.value}
    sentences = [errors.InvalidState(**facts).message]
    if target not in verbs.BY_TARGET:
        sentences.append("This action does not exist.")
    offered = verbs.offered(state, version)
    sentences.append(f"Possible targets now: {', '.join(offered) or 'none'}.")
    return errors.InvalidState(" ".join(sentences), **facts)


def check_request(asked: VerbRequest, find: FindRunbook) -> VerbRequest:
    """Make all checks that need no conductor; the first failed check decides the error.

    :returns: the request, with a runbook replaced by its steps.
    :raises errors.Error: with status 400, 403, 404, 406 or 409.
    """
    _raise_first(_BEFORE_RUNBOOK, asked)
    if "runbook" in asked.body:
        asked = _open_runbook(asked, find(asked.body["runbook"]))
    _raise_first(_AFTER_RUNBOOK, asked)
    return asked


def all_refusals(asked: VerbRequest, find: FindRunbook) -> tuple[VerbRequest, list[errors.Error]]:
    """Make all checks, also those of the conductor that need only the node's row.

    :returns: the request, with a runbook replaced by its steps if it can be used, and all
        refusals; `check_request` would raise the first.
    """
    found = list(_each(_BEFORE_RUNBOOK, asked))
    if "runbook" in asked.body and "runbook" in asked.verb.allows:
        try:
            asked = _open_runbook(asked, find(asked.body["runbook"]))
        except errors.Error as why:
            why.facts.setdefault("path", "runbook")
            found.append(why)
    found += _each((*_AFTER_RUNBOOK, *_BY_CONDUCTOR), asked)
    return asked, _without_repeats(found)


def node_refusals(asked: VerbRequest) -> list[errors.Error]:
    """Return the refusals of the verb, whatever the body; a PUT would get the first."""
    return _without_repeats(_each(NODE_CHECKS, asked))


def check_body(asked: VerbRequest) -> None:
    """Make the checks of the body and its version alone; the node is not read.

    :raises errors.Error: with status 400 or 406.
    """
    _raise_first((_check_version, *BODY_CHECKS), asked)


def _each(checks: Iterable[Check], asked: VerbRequest) -> Refusals:
    for one in checks:
        yield from one(asked)


def _raise_first(checks: Iterable[Check], asked: VerbRequest) -> None:
    for refusal in _each(checks, asked):
        raise refusal


def _without_repeats(found: Iterable[errors.Error]) -> list[errors.Error]:
    """Return refusals without those that say the same as an earlier one."""
    first: dict[tuple[str, str], errors.Error] = {}
    for one in found:
        first.setdefault((one.code, one.message), one)
    return list(first.values())


def _open_runbook(asked: VerbRequest, book: JsonView) -> VerbRequest:
    """Return the request as if it had listed the steps of its runbook."""
    step_lists.check_runbook(book, asked.node["uuid"], asked.node["traits"], asked.version)
    return with_steps(asked, book)


def with_steps(asked: VerbRequest, book: JsonView) -> VerbRequest:
    """Return the request with the steps of a runbook in place of its name."""
    key = next(key for key in asked.verb.needs if key != "runbook")
    kept = {name: value for name, value in asked.body.items() if name != "runbook"}
    arguments = {
        key: step_lists.steps_of_runbook(book),
        "disable_ramdisk": bool(book["disable_ramdisk"]),
    }
    return dataclasses.replace(asked, body={**kept, **arguments})


# PUT .../states/provision: the policy rules of a request, and the RPC of each verb.
#
# The checks above need no conductor; the conductor checks again, and takes the node's lock.

RULE = "baremetal:node:set_provision_state"
BODY_LIMIT = 64 * 1024
"""Largest body: 64 MiB, written in KiB; it may contain a whole configdrive."""
_RULED = ("clean_steps", "service_steps")
"""Keys of the body that have a policy rule of their own."""
_STEPS = tuple(f"{kind}_steps" for kind in (StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE))


def needed_rules(body: JsonView, access: Access, *, first: str = RULE) -> tuple[str, ...]:
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
    wanted = [step for step in steps if step_lists.for_children(cast(StoredStep, step))]
    if not wanted or not request.access.limited:
        return
    limits = [{str(one).lower() for one in step.get(step_lists.LIMIT) or ()} for step in wanted]
    where = {"parent_node": node_uuid}
    columns = ("uuid", *OWNERS)
    found = service.database.read(lambda conn: nodes.page(conn, columns=columns, where=where))
    for child in found:
        if any(not limit or child["uuid"] in limit for limit in limits):
            request.access.node(child, errors.Forbidden(what=rules[0]), *rules)


_FIELDS = {
    "console_enabled": 1,
    "last_error": 1,
    "power_state": 1,
    "provision_state": 1,
    "target_power_state": 1,
    "target_provision_state": 1,
    "provision_updated_at": 1,
    "raid_config": 12,
    "target_raid_config": 12,
    "boot_mode": 75,
    "secure_boot": 75,
}
_CONSOLES = ("/nodes/{ident}/states/console", "/nodes/states/console/{node_ident}")
_ROUTED = ("uuid", "driver", "conductor_group")
_LOCKED = (*node_locks.COLUMNS, "driver", "conductor_group")
_POWER = ("uuid", "driver", "conductor_group", "provision_state", "disable_power_off", "held")
_TIMEOUT_SINCE = 27


class ConsoleDocument(TypedDict):
    """The console of a node: whether it is started, and its address if it is."""

    console_enabled: bool
    console_info: Json | None


class States(expose.Controller):
    """/v1/nodes/{node}/states and the states that clients can request there."""

    @expose.expose("GET", "/nodes/{ident}/states")
    def show(
        self, request: Request, ident: str, wait: str | None = None, until: str | None = None
    ) -> Json:
        """Return the states of a node; with ``wait``, when ``until`` names one of them."""
        asked = waits.of_node(wait, until, self.service.conf)
        return self._show_states(request, ident, asked)

    @expose.expose("GET", ("/nodes/states/{node_ident}", "/nodes/states"))
    def show_named(self, request: Request, node_ident: str) -> Json:
        """Return the states of a node, by a path of the first clients."""
        return self._show_states(request, node_ident)

    def _show_states(self, request: Request, ident: str, wait: waits.Wait | None = None) -> Json:
        names = tuple(name for name, since in _FIELDS.items() if since <= request.version)
        plan = views.plan(views.NODES, names, request.version, full=False)
        row = waits.fetch_node(self.service, request, ident, plan.columns, wait)
        linker = views.linker(plan, request.base)
        document = plan.show_all([row], linker, request.access.redactor())[0]
        del document["links"]
        return document

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/provision",
        status=HTTPStatus.ACCEPTED,
        body=expose.WHOLE,
        limit=BODY_LIMIT,
        around=preferred.verb,
    )
    def provision(self, request: Request, ident: str) -> preferred.Accepted:
        """Request a verb; the response is 202 when the conductor has accepted it."""
        body = schemas.provision(request.json)
        rules = needed_rules(body, request.access)
        columns, traits = CHECKED_COLUMNS, "runbook" in body
        node = node_lookup.fetch(
            self.service, request, ident, columns, with_traits=traits, rules=rules
        )
        verb = find_verb(body["target"], node, request.version)
        held = node_holds.of(self.service, request, node)
        asked = VerbRequest(verb, body, node, request.version, self.service.conf, held)
        find = functools.partial(to_use, self.service, request)
        asked = check_request(asked, find)
        steps = steps_of(asked.body)
        demand_children(self.service, request, node["uuid"], steps, rules)
        if asked.verb.event == "retry":
            demand_steps_of_retry(self.service, request, ident, node["uuid"])
        conductor = self.service.conductor_of(node)
        run = conductor.start_verb(
            request.who, node_uuid=node["uuid"], event=asked.verb.event, body=dict(asked.body)
        )
        _point_to_states(request, ident)
        return preferred.Accepted(node["uuid"], run)

    @preferred.started("PUT", "/nodes/{ident}/states/power")
    def power(
        self, request: Request, ident: str, target: str, timeout: int | None = None
    ) -> preferred.Accepted:
        """Request a power state; ``timeout`` in seconds."""
        node = node_lookup.fetch(self.service, request, ident, _POWER)
        _check_power(request.version, node, target, timeout)
        node_holds.refuse(self.service, request, node, holds.POWER, target)
        conductor = self.service.conductor_of(node)
        conductor.change_node_power_state(
            request.who, node_uuid=node["uuid"], target=target, timeout=timeout
        )
        _point_to_states(request, ident)
        return preferred.Accepted(node["uuid"])

    @preferred.ordered("PUT", "/nodes/{ident}/states/raid", body=expose.WHOLE)
    def raid(self, request: Request, ident: str) -> None:
        """Set the target_raid_config of a node; {} removes it."""
        given = request.json if request.size else {}
        if not isinstance(given, dict):
            raise errors.InvalidRequest("target_raid_config must be an object.")
        node = node_lookup.fetch(self.service, request, ident, _LOCKED)
        since = _FIELDS["target_raid_config"]
        if request.version < since:
            raise errors.NotAcceptable(what="The state raid", since=since)
        config = raid.outline(given)
        conductor = self.service.conductor_of(node)
        try:
            conductor.set_target_raid_config(
                request.who, node_uuid=node["uuid"], target_raid_config=config
            )
        except errors.UnsupportedDriverExtension as why:
            raise errors.NotFound(why.message) from None

    @preferred.started("PUT", "/nodes/{ident}/states/boot_mode", since=bmc_orders.BOOT_SINCE)
    def boot_mode(self, request: Request, ident: str, target: str) -> preferred.Accepted:
        """Request a boot mode."""
        node = node_lookup.fetch(self.service, request, ident, _POWER)
        if target not in vocabulary.BOOT_MODES:
            reason = f"{target[:64]!r} is not one of {', '.join(vocabulary.BOOT_MODES)}"
            raise errors.InvalidParameter(path="target", reason=reason)
        bmc_orders.check_rest("boot_mode", node)
        conductor = self.service.conductor_of(node)
        conductor.change_node_boot_mode(request.who, node_uuid=node["uuid"], mode=target)
        _point_to_states(request, ident)
        return preferred.Accepted(node["uuid"])

    @preferred.started("PUT", "/nodes/{ident}/states/secure_boot", since=bmc_orders.BOOT_SINCE)
    def secure_boot(self, request: Request, ident: str, target: bool) -> preferred.Accepted:
        """Request secure boot on or off."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident, "secure_boot")
        conductor.change_node_secure_boot(request.who, node_uuid=uuid, state=target)
        _point_to_states(request, ident)
        return preferred.Accepted(uuid)

    @expose.expose("GET", (*_CONSOLES, "/nodes/states/console"))
    def show_console(self, request: Request, node_ident: str) -> ConsoleDocument:
        """Return whether the console is started, and its address if it is."""
        node = node_lookup.fetch(self.service, request, node_ident, (*_ROUTED, "console_enabled"))
        info = None
        if node["console_enabled"]:
            conductor = self.service.conductor_of(node)
            info = conductor.get_console_information(request.who, node_uuid=node["uuid"])
        return {"console_enabled": node["console_enabled"], "console_info": info}

    @preferred.started("PUT", _CONSOLES)
    def console(self, request: Request, ident: str, enabled: bool) -> preferred.Accepted:
        """Request the start or stop of the console."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        conductor.set_console_mode(request.who, node_uuid=uuid, enabled=enabled)
        location = f"{request.base}/v1/nodes/{ident}/states/console"
        request.answer.headers.append(("Location", location))
        return preferred.Accepted(uuid)


def _point_to_states(request: Request, ident: str) -> None:
    location = f"{request.base}/v1/nodes/{ident}/states"
    request.answer.headers.append(("Location", location))


def _check_power(version: int, node: Json, target: str, timeout: int | None) -> None:
    """Check a power request in Ironic's order: version, values, state."""
    bmc_orders.check_power_target(version, target)
    if timeout is not None and version < _TIMEOUT_SINCE:
        raise errors.NotAcceptable(what="The parameter timeout", since=_TIMEOUT_SINCE)
    if target not in vocabulary.POWER_TARGETS:
        known = ", ".join(vocabulary.POWER_TARGETS)
        reason = f"{target[:64]!r} is not one of {known}"
        raise errors.InvalidParameter(path="target", reason=reason)
    if timeout is not None and timeout < 1:
        raise errors.InvalidParameter(path="timeout", reason="must be at least 1 second")
    bmc_orders.check_power_state(node, target)
