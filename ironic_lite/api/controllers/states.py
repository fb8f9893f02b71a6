"""States of a node: provision state, power, boot mode, RAID and console."""

from __future__ import annotations

import functools
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import (
    bmc_orders,
    guards,
    node_holds,
    node_lookup,
    node_waits,
    preferred,
    provisioning,
    runbook_access,
    verb_checks,
    views,
)
from ironic_lite.api.validation import schemas, types
from ironic_lite.api.watching import waits
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.domain import bmc_vocabulary, holds, node_locks, raid
from ironic_lite.rpc import interface

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
_LOCKED = (*node_locks.COLUMNS, "driver", "conductor_group")
_POWER = ("uuid", "driver", "conductor_group", "provision_state", "disable_power_off", "held")
_TIMEOUT_SINCE = 27


class States(expose.Controller):
    """/v1/nodes/{node}/states and the states that clients can request there."""

    @expose.expose("GET", "/nodes/{ident}/states", types.word, types.word, types.word)
    def show(
        self, request: Request, ident: str, wait: str | None = None, until: str | None = None
    ) -> Json:
        """Return the states of a node; with ``wait``, when ``until`` names one of them."""
        asked = waits.of_node(wait, until, self.service.conf)
        return self._show_states(request, ident, asked)

    @expose.expose("GET", "/nodes/states/{node_ident}", types.word)
    def show_named(self, request: Request, node_ident: str) -> Json:
        """Return the states of a node, by the path of the first clients."""
        return self._show_states(request, node_ident)

    @expose.expose("GET", "/nodes/states", types.word)
    def show_asked(self, request: Request, node_ident: str) -> Json:
        """Return the states of the node that the query names."""
        return self._show_states(request, node_ident)

    def _show_states(self, request: Request, ident: str, wait: waits.Wait | None = None) -> Json:
        names = tuple(name for name, since in _FIELDS.items() if since <= request.version)
        plan = views.plan(views.NODES, names, request.version, full=False)
        row = node_waits.fetch(self.service, request, ident, plan.columns, wait)
        linker = views.linker(plan, request.base)
        document = plan.show_all([row], linker, request.access.redactor())[0]
        del document["links"]
        return document

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/provision",
        types.word,
        status=HTTPStatus.ACCEPTED,
        body=expose.WHOLE,
        limit=provisioning.BODY_LIMIT,
        around=preferred.verb,
    )
    def provision(self, request: Request, ident: str) -> preferred.Accepted:
        """Request a verb; the response is 202 when the conductor has accepted it."""
        if isinstance(request.json, dict) and request.json.get("target", "missing") in (None, ""):
            node_lookup.present(self.service, request, ident)
        body = schemas.provision(request.json)
        rules = provisioning.rules(body, request.access)
        columns, traits = verb_checks.COLUMNS, "runbook" in body
        node = node_lookup.fetch(
            self.service, request, ident, columns, with_traits=traits, rules=rules
        )
        verb = verb_checks.verb(body["target"], node, request.version)
        held = node_holds.of(self.service, request, node)
        asked = verb_checks.Asked(verb, body, node, request.version, self.service.conf, held)
        find = functools.partial(runbook_access.to_use, self.service, request)
        asked = verb_checks.check(asked, find)
        steps = provisioning.steps_of(asked.body)
        provisioning.demand_children(self.service, request, node["uuid"], steps, rules)
        if asked.verb.event == "retry":
            provisioning.demand_steps_of_retry(self.service, request, ident, node["uuid"])
        conductor = self.service.conductor_of(node)
        run = provisioning.send(conductor, request.who, asked)
        _point_to_states(request, ident)
        return preferred.Accepted(node["uuid"], run)

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/power",
        types.word,
        types.word,
        types.integer,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.operation,
    )
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

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/raid",
        types.word,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
        around=preferred.at_once,
    )
    def raid(self, request: Request, ident: str) -> None:
        """Set the target_raid_config of a node; {} removes it."""
        given = request.json if request.size else {}
        if not isinstance(given, dict):
            raise errors.InvalidRequest("target_raid_config must be an object.")
        node = node_lookup.fetch(self.service, request, ident, _LOCKED)
        since = _FIELDS["target_raid_config"]
        if request.version < since:
            raise errors.NotAcceptable(what="The state raid", since=since)
        try:
            config = raid.outline(given)
        except errors.InvalidRequest:
            guards.check_unlocked(node)
            raise
        conductor = self.service.conductor_of(node)
        try:
            conductor.set_target_raid_config(
                request.who, node_uuid=node["uuid"], target_raid_config=config
            )
        except errors.UnsupportedDriverExtension as why:
            raise errors.NotFound(why.message) from None

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/boot_mode",
        types.word,
        types.word,
        since=bmc_orders.BOOT_SINCE,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.operation,
    )
    def boot_mode(self, request: Request, ident: str, target: str) -> preferred.Accepted:
        """Request a boot mode."""
        if target not in bmc_vocabulary.BOOT_MODES:
            reason = f"{target[:64]!r} is not one of {', '.join(bmc_vocabulary.BOOT_MODES)}"
            raise errors.InvalidParameter(path="target", reason=reason)
        conductor, uuid = self._at_rest(request, ident, "boot_mode")
        conductor.change_node_boot_mode(request.who, node_uuid=uuid, mode=target)
        _point_to_states(request, ident)
        return preferred.Accepted(uuid)

    @expose.expose(
        "PUT",
        "/nodes/{ident}/states/secure_boot",
        types.word,
        types.boolean,
        since=bmc_orders.BOOT_SINCE,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.operation,
    )
    def secure_boot(self, request: Request, ident: str, target: bool) -> preferred.Accepted:
        """Request secure boot on or off."""
        conductor, uuid = self._at_rest(request, ident, "secure_boot")
        conductor.change_node_secure_boot(request.who, node_uuid=uuid, state=target)
        _point_to_states(request, ident)
        return preferred.Accepted(uuid)

    @expose.expose("GET", _CONSOLE, types.word)
    def show_console(self, request: Request, ident: str) -> Json:
        """Return whether the console is started, and its address if it is."""
        return self._show_console(request, ident)

    @expose.expose("GET", "/nodes/states/console/{node_ident}", types.word)
    def show_console_named(self, request: Request, node_ident: str) -> Json:
        """Return the console of a node, by the path of the first clients."""
        return self._show_console(request, node_ident)

    @expose.expose("GET", "/nodes/states/console", types.word)
    def show_console_asked(self, request: Request, node_ident: str) -> Json:
        """Return the console of the node that the query names."""
        return self._show_console(request, node_ident)

    def _show_console(self, request: Request, ident: str) -> Json:
        node = node_lookup.fetch(self.service, request, ident, (*_ROUTED, "console_enabled"))
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
        first=node_lookup.present,
        around=preferred.operation,
    )
    def console(self, request: Request, ident: str, enabled: bool) -> preferred.Accepted:
        """Request the start or stop of the console."""
        return self._set_console(request, ident, enabled=enabled)

    def _set_console(self, request: Request, ident: str, *, enabled: bool) -> preferred.Accepted:
        node = node_lookup.fetch(self.service, request, ident, _ROUTED)
        conductor = self.service.conductor_of(node)
        conductor.set_console_mode(request.who, node_uuid=node["uuid"], enabled=enabled)
        location = f"{request.base}/v1/nodes/{ident}/states/console"
        request.answer.headers.append(("Location", location))
        return preferred.Accepted(node["uuid"])

    @expose.expose(
        "PUT",
        "/nodes/states/console/{node_ident}",
        types.word,
        types.boolean,
        status=HTTPStatus.ACCEPTED,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.operation,
    )
    def console_named(self, request: Request, node_ident: str, enabled: bool) -> preferred.Accepted:
        """Request the start or stop of the console, by the path of the first clients."""
        return self._set_console(request, node_ident, enabled=enabled)

    def _at_rest(self, request: Request, ident: str, order: str) -> tuple[interface.Conductor, str]:
        """Return the conductor and the UUID of a node in a stable state."""
        node = node_lookup.fetch(self.service, request, ident, _POWER)
        bmc_orders.check_rest(order, node)
        return self.service.conductor_of(node), node["uuid"]


def _point_to_states(request: Request, ident: str) -> None:
    location = f"{request.base}/v1/nodes/{ident}/states"
    request.answer.headers.append(("Location", location))


def _check_power(version: int, node: Json, target: str, timeout: int | None) -> None:
    """Check a power request in Ironic's order: version, values, state."""
    bmc_orders.check_power_target(version, target)
    if timeout is not None and version < _TIMEOUT_SINCE:
        raise errors.NotAcceptable(what="The parameter timeout", since=_TIMEOUT_SINCE)
    if target not in bmc_vocabulary.POWER_TARGETS:
        known = ", ".join(bmc_vocabulary.POWER_TARGETS)
        reason = f"{target[:64]!r} is not one of {known}"
        raise errors.InvalidParameter(path="target", reason=reason)
    if timeout is not None and timeout < 1:
        raise errors.InvalidParameter(path="timeout", reason="must be at least 1 second")
    bmc_orders.check_power_state(node, target)
