"""PUT .../states/provision: all checks of the API, in Ironic's order, and the RPC of each verb.

`check` uses the verb's row of ``verbs.TABLE`` and one read of the node. `send` maps each verb to
its RPC. The conductor checks again under the node's lock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.policy.access import Access
from ironic_lite.api.resources import guards
from ironic_lite.api.validation import schemas, step_lists
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import runbooks, verbs
from ironic_lite.domain.states import State
from ironic_lite.domain.steps import StepKind
from ironic_lite.rpc import interface

COLUMNS = (
    "uuid",
    "driver",
    "conductor_group",
    "provision_state",
    "reservation",
    "maintenance",
    "protected",
    "retired",
)
"""Columns of a node that the checks read."""

_SHOWN = 64
_RULE = "baremetal:node:set_provision_state"
_RULED = ("clean_steps", "service_steps")
"""Keys of the body that have a policy rule of their own."""
_STEPS = {f"{kind}_steps": kind for kind in (StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE)}
# A version without the key gets 400, as for a verb that never has the key, instead of 406.
_GATED_AS_FOREIGN = frozenset({"configdrive"})
# Maintenance refuses these verbs before the check of the state, and other verbs last.
_MAINTENANCE_FIRST = frozenset({"deploy", "rebuild"})


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A request: the verb's row, the body without null values, the node, and the version.

    The node has its ``traits`` if the request names a runbook.
    """

    verb: verbs.Verb
    body: JsonView
    node: JsonView
    version: int

    @property
    def state(self) -> State:
        """The node's provision state."""
        return State(self.node["provision_state"])


# -- checks, in their order ------------------------------------------------------------------


def _check_version(asked: Asked) -> None:
    if asked.version < asked.verb.since:
        raise errors.NotAcceptable(what=f"The target {asked.verb.target}", since=asked.verb.since)


def _maintenance_first(asked: Asked) -> None:
    if asked.verb.event in _MAINTENANCE_FIRST:
        _check_maintenance(asked)


def _check_maintenance(asked: Asked) -> None:
    if asked.node["maintenance"] and not asked.verb.in_maintenance:
        raise errors.NodeInMaintenance(verb=asked.verb.target, node=asked.node["uuid"])


def _check_state(asked: Asked) -> None:
    if verbs.possible(asked.verb, asked.state):
        return
    guards.check_unlocked(asked.node)
    raise _verb_impossible(asked.verb.target, asked.node, asked.version)


def _check_retired(asked: Asked) -> None:
    """Refuse a retired node on the three ways to available.

    Source: S4.7, C23.
    """
    if asked.verb.spares_retired and asked.node["retired"]:
        raise errors.NodeRetired(node=asked.node["uuid"])


def _check_configdrive(asked: Asked) -> None:
    if "configdrive" in asked.body:
        _check_key(asked, "configdrive")
        schemas.configdrive(asked.body["configdrive"], version=asked.version)


def _check_runbook(asked: Asked) -> None:
    if "runbook" in asked.body:
        _new_enough(asked, "runbook")
        _check_key(asked, "runbook")
        for key in ("clean_steps", "service_steps", "disable_ramdisk"):
            if key in asked.body:
                reason = f"cannot be given together with {key}: the runbook has its own"
                raise errors.InvalidParameter(path="runbook", reason=reason)


def _check_ramdisk(asked: Asked) -> None:
    if "disable_ramdisk" in asked.body:
        _new_enough(asked, "disable_ramdisk")
        _check_key(asked, "disable_ramdisk")


def _check_keys(asked: Asked) -> None:
    """Check that each key belongs to the verb, and that the verb has the keys it needs."""
    for key in asked.body:
        if key != "target":
            _new_enough(asked, key)
            _check_key(asked, key)
    if asked.verb.needs and not any(key in asked.body for key in asked.verb.needs):
        raise errors.MissingParameter(path=" or ".join(asked.verb.needs))


def _state_version(asked: Asked) -> None:
    since = asked.verb.state_since.get(asked.state, 1)
    if asked.version < since:
        what = f"The target {asked.verb.target} in state {asked.state}"
        raise errors.NotAcceptable(what=what, since=since)


def _check_protected(asked: Asked) -> None:
    if asked.verb.spares_protected and asked.node["protected"]:
        raise errors.NodeProtected(node=asked.node["uuid"])


_BEFORE_STEPS: tuple[Callable[[Asked], None], ...] = (
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
_AFTER_STEPS: tuple[Callable[[Asked], None], ...] = (_check_maintenance, _check_protected)


def rules(body: JsonView, access: Access) -> tuple[str, ...]:
    """Return the names of the rules that a caller must pass for this request.

    The rules of a runbook's steps were checked for its author; its user need not pass them.
    """
    if "runbook" in body:
        return (_RULE,)
    named = (key for key in _RULED if body.get(key))
    single = (rule for key in _STEPS for rule in policy.of_steps(body.get(key)))
    return (_RULE, *(f"{_RULE}:{key}" for key in named), *access.written(single))


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


def check(asked: Asked, conf: Configuration, runbook: Callable[[str], JsonView]) -> Asked:
    """Make all checks that need no conductor; the first failed check decides the error.

    :param runbook: returns all columns of the runbook that the request names.
    :returns: the request, with a runbook replaced by its steps.
    :raises errors.Error: with status 400, 403, 404, 406 or 409.
    """
    for rule in _BEFORE_STEPS:
        rule(asked)
    if "runbook" in asked.body:
        asked = _open_runbook(asked, runbook(asked.body["runbook"]))
    for key, kind in _STEPS.items():
        if key in asked.body:
            disallowed = conf.api[f"disallow_{kind}_steps"]
            step_lists.of_request(kind, asked.body[key], disallowed=disallowed)
    for rule in _AFTER_STEPS:
        rule(asked)
    return asked


def _open_runbook(asked: Asked, book: JsonView) -> Asked:
    """Return the request as if it had listed the steps of its runbook."""
    runbooks.check(book, asked.node["uuid"], asked.node["traits"], asked.version)
    key = next(key for key in asked.verb.needs if key != "runbook")
    kept = {name: value for name, value in asked.body.items() if name != "runbook"}
    arguments = {key: runbooks.steps(book), "disable_ramdisk": bool(book["disable_ramdisk"])}
    return dataclasses.replace(asked, body={**kept, **arguments})


def _check_key(asked: Asked, key: str) -> None:
    since = asked.verb.allows.get(key)
    if since is None or (key in _GATED_AS_FOREIGN and asked.version < since):
        owners = ", ".join(verbs.owners(key))
        reason = f"belongs to the targets {owners}, not to {asked.verb.target}"
        raise errors.InvalidParameter(path=key, reason=reason)


def _new_enough(asked: Asked, key: str) -> None:
    """Refuse a key that is newer than the request's version."""
    since = min(verbs.BY_TARGET[owner].allows[key] for owner in verbs.owners(key))
    own = asked.verb.allows.get(key, since)
    if key not in _GATED_AS_FOREIGN and asked.version < max(since, own):
        raise errors.NotAcceptable(what=f"The parameter {key}", since=max(since, own))


# -- asking the conductor --------------------------------------------------------------------

Send = Callable[[interface.Conductor, Context, Asked], str | None]


def _send_deploy(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    return conductor.do_node_deploy(
        who,
        node_uuid=asked.node["uuid"],
        rebuild=asked.verb.event == "rebuild",
        configdrive=asked.body.get("configdrive"),
        deploy_steps=asked.body.get("deploy_steps"),
    )


def _send_clean(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    return conductor.do_node_clean(
        who,
        node_uuid=asked.node["uuid"],
        clean_steps=asked.body["clean_steps"],
        disable_ramdisk=asked.body.get("disable_ramdisk", False),
    )


def _send_service(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    return conductor.do_node_service(
        who,
        node_uuid=asked.node["uuid"],
        service_steps=asked.body["service_steps"],
        disable_ramdisk=asked.body.get("disable_ramdisk", False),
    )


def _send_rescue(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    return conductor.do_node_rescue(
        who, node_uuid=asked.node["uuid"], rescue_password=asked.body["rescue_password"]
    )


def _send_unrescue(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    return conductor.do_node_unrescue(who, node_uuid=asked.node["uuid"])


def _tear_down(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    return conductor.do_node_tear_down(who, node_uuid=asked.node["uuid"])


def _send_inspect(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    return conductor.inspect_hardware(who, node_uuid=asked.node["uuid"])


BY_EVENT: Mapping[str, Send] = {
    "deploy": _send_deploy,
    "rebuild": _send_deploy,
    "delete": _tear_down,
    "clean": _send_clean,
    "service": _send_service,
    "rescue": _send_rescue,
    "unrescue": _send_unrescue,
    "inspect": _send_inspect,
}
"""Events with an RPC method of their own."""


def send(conductor: interface.Conductor, who: Context, asked: Asked) -> str | None:
    """Send the verb to the conductor; return the UUID of its run when it is accepted.

    :raises errors.Error: the conductor's refusal.
    """
    event = asked.verb.event
    if event in BY_EVENT:
        return BY_EVENT[event](conductor, who, asked)
    return conductor.do_provisioning_action(who, node_uuid=asked.node["uuid"], action=event)
