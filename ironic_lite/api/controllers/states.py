"""Where a node stands and where it shall go: provision state and power."""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import Any

from ironic_lite import errors, hardware, raid
from ironic_lite.api.resources import books, documents, idents, provisioning
from ironic_lite.api.validation import schemas, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request
from ironic_lite.rpc import interface
from ironic_lite.states import State, check_at_rest

Json = dict[str, Any]

PROVISION_LIMIT = 64 * 1024
"""KiB: a body may carry a whole configuration drive."""

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
_CONSOLE = "/nodes/{ident}/states/console"
_ROUTED = ("uuid", "driver", "conductor_group")
_POWER = ("uuid", "driver", "conductor_group", "provision_state", "disable_power_off")
_POWER_TARGETS = {
    "power on": 1,
    "power off": 1,
    "rebooting": 1,
    "soft rebooting": 27,
    "soft power off": 27,
}
_TIMEOUT_SINCE = 27
_BOOT_SINCE = 76
_POWERS_OFF = frozenset({"power off", "soft power off"})
_NO_POWER = frozenset({State.CLEANING, State.CLEANWAIT})  # S2.22


class States(expose.Controller):
    """/v1/nodes/{node}/states and the two things that can be asked for there."""

    @expose.expose("GET", "/nodes/{ident}/states", types.word)
    def show(self, request: Request, ident: str) -> Json:
        """Return the states of a node."""
        names = tuple(name for name, since in _FIELDS.items() if since <= request.version)
        plan = documents.plan(documents.NODES, names, request.version, full=False)
        row = idents.fetch(self.service, request, ident, plan.columns)
        linker = documents.linker(plan, request.base)
        document = plan.show_all([row], linker, request.access.redactor())[0]
        del document["links"]
        return document

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/provision",
        types.word,
        status=HTTPStatus.ACCEPTED,
        body=expose.WHOLE,
        limit=PROVISION_LIMIT,
    )
    def provision(self, request: Request, ident: str) -> None:
        """Ask for a verb; the answer says that the conductor has begun, or why it will not."""
        body = schemas.provision(request.json)
        rules = provisioning.rules(body, request.access)
        columns, traits = provisioning.COLUMNS, "runbook" in body
        node = idents.fetch(self.service, request, ident, columns, with_traits=traits, rules=rules)
        verb = provisioning.verb(body["target"], node, request.version)
        asked = provisioning.Asked(verb, body, node, request.version)
        find = functools.partial(books.to_use, self.service, request)
        asked = provisioning.check(asked, self.service.conf, find)
        conductor = self.service.conductor_of(node)
        provisioning.send(conductor, request.who, asked)
        _point_to_states(request, ident)

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/power",
        types.word,
        types.word,
        types.integer,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
    )
    def power(self, request: Request, ident: str, target: str, timeout: int | None = None) -> None:
        """Ask for a power state; ``timeout`` in seconds."""
        node = idents.fetch(self.service, request, ident, _POWER)
        _check_power(request.version, node, target, timeout)
        conductor = self.service.conductor_of(node)
        conductor.change_node_power_state(
            request.who, node_uuid=node["uuid"], target=target, timeout=timeout
        )
        _point_to_states(request, ident)

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/raid",
        types.word,
        since=_FIELDS["target_raid_config"],
        below=HTTPStatus.NOT_ACCEPTABLE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
    )
    def raid(self, request: Request, ident: str) -> None:
        """Set which volumes the node shall have: a target_raid_config, or {} for none."""
        config = raid.outline(request.json)
        node = idents.fetch(self.service, request, ident, _ROUTED)
        conductor = self.service.conductor_of(node)
        conductor.set_target_raid_config(
            request.who, node_uuid=node["uuid"], target_raid_config=config
        )

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/boot_mode",
        types.word,
        types.word,
        since=_BOOT_SINCE,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
    )
    def boot_mode(self, request: Request, ident: str, target: str) -> None:
        """Ask for a boot mode."""
        if target not in hardware.BOOT_MODES:
            reason = f"{target[:64]!r} is not one of {', '.join(hardware.BOOT_MODES)}"
            raise errors.InvalidParameter(path="target", reason=reason)
        conductor, uuid = self._at_rest(request, ident, "its boot mode")
        conductor.change_node_boot_mode(request.who, node_uuid=uuid, mode=target)
        _point_to_states(request, ident)

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/secure_boot",
        types.word,
        types.boolean,
        since=_BOOT_SINCE,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
    )
    def secure_boot(self, request: Request, ident: str, target: bool) -> None:
        """Ask for secure boot to be on or off."""
        conductor, uuid = self._at_rest(request, ident, "its secure boot")
        conductor.change_node_secure_boot(request.who, node_uuid=uuid, state=target)
        _point_to_states(request, ident)

    @expose.expose("GET", _CONSOLE, types.word)
    def show_console(self, request: Request, ident: str) -> Json:
        """Tell whether the console is started, and how it is reached then."""
        node = idents.fetch(self.service, request, ident, (*_ROUTED, "console_enabled"))
        info = None
        if node["console_enabled"]:
            conductor = self.service.conductor_of(node)
            info = conductor.get_console_information(request.who, node_uuid=node["uuid"])
        return {"console_enabled": node["console_enabled"], "console_info": info}

    @expose.expose(
        "PUT",
        _CONSOLE,
        types.word,
        types.boolean,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
    )
    def console(self, request: Request, ident: str, enabled: bool) -> None:
        """Ask for the console to be started or stopped."""
        node = idents.fetch(self.service, request, ident, _ROUTED)
        conductor = self.service.conductor_of(node)
        conductor.set_console_mode(request.who, node_uuid=node["uuid"], enabled=enabled)
        location = f"{request.base}/v1/nodes/{ident}/states/console"
        request.answer.headers.append(("Location", location))

    def _at_rest(self, request: Request, ident: str, what: str) -> tuple[interface.Conductor, str]:
        """Return the conductor of a node whose state does not change by itself, and its UUID."""
        node = idents.fetch(self.service, request, ident, _POWER)
        check_at_rest(State(node["provision_state"]), what, node=node["uuid"])
        return self.service.conductor_of(node), node["uuid"]


def _point_to_states(request: Request, ident: str) -> None:
    location = f"{request.base}/v1/nodes/{ident}/states"
    request.answer.headers.append(("Location", location))


def _check_power(version: int, node: Json, target: str, timeout: int | None) -> None:
    """Refuse in the order of the reference: version, values, state."""
    since = _POWER_TARGETS.get(target)
    if since is not None and version < since:
        raise errors.NotAcceptable(what=f"The target {target}", since=since)
    if timeout is not None and version < _TIMEOUT_SINCE:
        raise errors.NotAcceptable(what="The parameter timeout", since=_TIMEOUT_SINCE)
    if since is None:
        known = ", ".join(_POWER_TARGETS)
        reason = f"{target[:64]!r} is not a power state that can be asked for; those are {known}"
        raise errors.InvalidParameter(path="target", reason=reason)
    if timeout is not None and timeout < 1:
        raise errors.InvalidParameter(path="timeout", reason="must be at least 1 second")
    state = State(node["provision_state"])
    if state in _NO_POWER:
        raise errors.InvalidState(verb=target, node=node["uuid"], state=state.value)
    if target in _POWERS_OFF and node["disable_power_off"]:
        reason = "it must not be powered off (disable_power_off is true)"
        raise errors.Conflict(node=node["uuid"], reason=reason)
