"""Checks of a request for a provision verb that need no conductor.

Each check yields its refusals. ``check`` raises the first of all checks, in Ironic's order.
``refusals`` returns all of them, and ``node_refusals`` those that do not depend on the body.
``NODE_CHECKS`` and ``BODY_CHECKS`` list the checks by what they read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.api.resources import guards
from ironic_lite.api.validation import schemas, step_lists
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import holds, node_locks, runbooks, verbs
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind

COLUMNS = (
    *node_locks.COLUMNS,
    *("driver", "conductor_group", "protected", "retired", "held", "data_state"),
    *verbs.MAINTENANCE_COLUMNS,
)
"""Columns of a node that the checks read."""

_SHOWN = 64
_STEPS = {f"{kind}_steps": kind for kind in (StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE)}
# A version without the key gets 400, as for a verb that never has the key, instead of 406.
_GATED_AS_FOREIGN = frozenset({"configdrive"})
# Maintenance refuses these verbs before the check of the state, and other verbs last.
_MAINTENANCE_FIRST = frozenset({"deploy", "rebuild"})


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A request: the verb's row, the body without null values, the node, and the version.

    The node has its ``traits`` if the request names a runbook. ``held`` are its holds in force.
    """

    verb: verbs.Verb
    body: JsonView
    node: JsonView
    version: int
    conf: Configuration
    held: Sequence[holds.Hold] = ()

    @property
    def state(self) -> State:
        """The node's provision state."""
        return State(self.node["provision_state"])


Refusals = Iterator[errors.Error]
Check = Callable[[Asked], Refusals]
FindRunbook = Callable[[str], JsonView]
"""Returns all columns of a runbook that the caller may use."""


def _caught(call: Callable[..., object], *args: Any, **named: Any) -> Refusals:
    """Yield the refusal that a call raises."""
    try:
        call(*args, **named)
    except errors.Error as why:
        yield why


# -- checks of the node and the verb ---------------------------------------------------------


def _check_version(asked: Asked) -> Refusals:
    if asked.version < asked.verb.since:
        yield errors.NotAcceptable(what=f"The target {asked.verb.target}", since=asked.verb.since)


def _maintenance_first(asked: Asked) -> Refusals:
    if asked.verb.event in _MAINTENANCE_FIRST:
        yield from _check_maintenance(asked)


def _check_maintenance(asked: Asked) -> Refusals:
    if asked.node["maintenance"] and not verbs.in_maintenance(asked.verb, asked.node, cleans=True):
        yield errors.NodeInMaintenance(verb=asked.verb.target, node=asked.node["uuid"])


def _check_state(asked: Asked) -> Refusals:
    if not verbs.possible(asked.verb, asked.state):
        yield from _check_lock(asked)
        yield _verb_impossible(asked.verb.target, asked.node, asked.version)


def _check_retired(asked: Asked) -> Refusals:
    """Refuse a retired node on the three ways to available.

    Source: S4.7, C23.
    """
    if asked.verb.spares_retired and asked.node["retired"]:
        yield errors.NodeRetired(node=asked.node["uuid"])


def _state_version(asked: Asked) -> Refusals:
    since = asked.verb.state_since.get(asked.state, 1)
    if asked.version < since:
        what = f"The target {asked.verb.target} in state {asked.state}"
        yield errors.NotAcceptable(what=what, since=since)


def _check_holds(asked: Asked) -> Refusals:
    verb = asked.verb
    why = holds.refusal(asked.node["uuid"], asked.held, verb.event, verb.target)
    if why is not None:
        yield why


def _check_protected(asked: Asked) -> Refusals:
    if asked.verb.spares_protected and asked.node["protected"]:
        yield errors.NodeProtected(node=asked.node["uuid"])


def _cleaning_allowed(asked: Asked) -> Refusals:
    """Refuse to clean a node in maintenance if the configuration forbids it."""
    allowed = asked.conf.conductor.allow_provisioning_in_maintenance
    if asked.node["maintenance"] and not verbs.in_maintenance(
        asked.verb, asked.node, cleans=allowed
    ):
        yield errors.NodeInMaintenance(verb=asked.verb.target, node=asked.node["uuid"])


def _abort_allowed(asked: Asked) -> Refusals:
    if asked.verb.event == "abort":
        yield from verbs.refusals_of_abort(asked.state, asked.node)


def _data_gone(asked: Asked) -> Refusals:
    required = asked.conf.conductor.require_clean_data
    yield from verbs.refusals_of_available(asked.verb, asked.node, required=required)


def _check_lock(asked: Asked) -> Refusals:
    yield from _caught(guards.check_unlocked, asked.node)


# -- checks of the body ----------------------------------------------------------------------


def _check_configdrive(asked: Asked) -> Refusals:
    if "configdrive" in asked.body:
        yield from _check_key(asked, "configdrive")
        given = asked.body["configdrive"]
        yield from _caught(schemas.configdrive, given, version=asked.version)


def _check_runbook(asked: Asked) -> Refusals:
    if "runbook" in asked.body:
        yield from _new_enough(asked, "runbook")
        yield from _check_key(asked, "runbook")
        for key in ("clean_steps", "service_steps", "disable_ramdisk"):
            if key in asked.body:
                reason = f"cannot be given together with {key}: the runbook has its own"
                yield errors.InvalidParameter(path="runbook", reason=reason)


def _check_ramdisk(asked: Asked) -> Refusals:
    if "disable_ramdisk" in asked.body:
        yield from _new_enough(asked, "disable_ramdisk")
        yield from _check_key(asked, "disable_ramdisk")


def _check_keys(asked: Asked) -> Refusals:
    """Check that each key belongs to the verb, and that the verb has the keys it needs."""
    for key in asked.body:
        if key != "target":
            yield from _new_enough(asked, key)
            yield from _check_key(asked, key)
    if asked.verb.needs and not any(key in asked.body for key in asked.verb.needs):
        yield errors.MissingParameter(path=" or ".join(asked.verb.needs))


def _check_key(asked: Asked, key: str) -> Refusals:
    since = asked.verb.allows.get(key)
    if since is None or (key in _GATED_AS_FOREIGN and asked.version < since):
        owners = ", ".join(verbs.owners(key))
        reason = f"belongs to the targets {owners}, not to {asked.verb.target}"
        yield errors.InvalidParameter(path=key, reason=reason)


def _new_enough(asked: Asked, key: str) -> Refusals:
    """Refuse a key that is newer than the request's version."""
    since = min(verbs.BY_TARGET[owner].allows[key] for owner in verbs.owners(key))
    own = asked.verb.allows.get(key, since)
    if key not in _GATED_AS_FOREIGN and asked.version < max(since, own):
        yield errors.NotAcceptable(what=f"The parameter {key}", since=max(since, own))


def _check_steps(asked: Asked) -> Refusals:
    for key, kind in _STEPS.items():
        if key in asked.body:
            disallowed = asked.conf.api[f"disallow_{kind}_steps"]
            yield from step_lists.refusals(kind, asked.body[key], disallowed=disallowed)


# -- the checks, in Ironic's order -----------------------------------------------------------

_BEFORE_RUNBOOK: tuple[Check, ...] = (
    _check_version,
    _maintenance_first,
    _check_state,
    _check_retired,
    _check_configdrive,
    _check_runbook,
    _check_ramdisk,
    _check_keys,
    _state_version,
)
_AFTER_RUNBOOK: tuple[Check, ...] = (
    _check_steps,
    _check_maintenance,
    _check_holds,
    _check_protected,
)
"""Checks that see the steps of a runbook as if the request had listed them."""
_BY_CONDUCTOR: tuple[Check, ...] = (
    _check_lock,
    _data_gone,
    _cleaning_allowed,
    _abort_allowed,
)
"""Checks that ``check`` leaves to the conductor, which waits for the lock."""

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


def verb(target: str, node: JsonView, version: int) -> verbs.Verb:
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


def check(asked: Asked, find: FindRunbook) -> Asked:
    """Make all checks that need no conductor; the first failed check decides the error.

    :returns: the request, with a runbook replaced by its steps.
    :raises errors.Error: with status 400, 403, 404, 406 or 409.
    """
    _raise_first(_BEFORE_RUNBOOK, asked)
    if "runbook" in asked.body:
        asked = _open_runbook(asked, find(asked.body["runbook"]))
    _raise_first(_AFTER_RUNBOOK, asked)
    return asked


def refusals(asked: Asked, find: FindRunbook) -> tuple[Asked, list[errors.Error]]:
    """Make all checks, also those of the conductor that need only the node's row.

    :returns: the request, with a runbook replaced by its steps if it can be used, and all
        refusals; `check` would raise the first.
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


def node_refusals(asked: Asked) -> list[errors.Error]:
    """Return the refusals of the verb, whatever the body; a PUT would get the first."""
    return _without_repeats(_each(NODE_CHECKS, asked))


def check_body(asked: Asked) -> None:
    """Make the checks of the body and its version alone; the node is not read.

    :raises errors.Error: with status 400 or 406.
    """
    _raise_first((_check_version, *BODY_CHECKS), asked)


def _each(checks: Iterable[Check], asked: Asked) -> Refusals:
    for one in checks:
        yield from one(asked)


def _raise_first(checks: Iterable[Check], asked: Asked) -> None:
    for refusal in _each(checks, asked):
        raise refusal


def _without_repeats(found: Iterable[errors.Error]) -> list[errors.Error]:
    """Return refusals without those that say the same as an earlier one."""
    first: dict[tuple[str, str], errors.Error] = {}
    for one in found:
        first.setdefault((one.code, one.message), one)
    return list(first.values())


def _open_runbook(asked: Asked, book: JsonView) -> Asked:
    """Return the request as if it had listed the steps of its runbook."""
    runbooks.check(book, asked.node["uuid"], asked.node["traits"], asked.version)
    return with_steps(asked, book)


def with_steps(asked: Asked, book: JsonView) -> Asked:
    """Return the request with the steps of a runbook in place of its name."""
    key = next(key for key in asked.verb.needs if key != "runbook")
    kept = {name: value for name, value in asked.body.items() if name != "runbook"}
    arguments = {key: runbooks.steps(book), "disable_ramdisk": bool(book["disable_ramdisk"])}
    return dataclasses.replace(asked, body={**kept, **arguments})
