"""Operations of a node's driver outside of verbs: validation, boot device, clean steps."""

from __future__ import annotations

from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import guards, node_lookup, preferred
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.domain import node_locks
from ironic_lite.rpc import interface

_ROUTED = ("uuid", "driver", "conductor_group")
_LOCKED = (*node_locks.COLUMNS, "driver", "conductor_group")
_STEPS_SINCE = 15  # C19
_RETRY_HEADER = "Retry-Request-After"  # S1.26


class Management(expose.Controller):
    """Reads and small changes through the conductor of one node."""

    def _conductor_of_node(self, request: Request, ident: str) -> tuple[interface.Conductor, str]:
        """Return the conductor of a node, and the node's UUID."""
        row = node_lookup.fetch(self.service, request, ident, _ROUTED)
        return self.service.conductor_of(row), row["uuid"]

    # -- validation --------------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/validate", types.word)
    def validate(self, request: Request, ident: str) -> Json:
        """Return for each interface whether the node has the settings that it needs."""
        return self._validate_interfaces(request, ident)

    @expose.expose("GET", "/nodes/validate", types.word, types.word)
    def validate_named(
        self, request: Request, node: str | None = None, node_uuid: str | None = None
    ) -> Json:
        """Validate the interfaces of the node that the query names."""
        if node_uuid is not None:
            return self._validate_interfaces(request, rules.uuid(node_uuid, "node_uuid"))
        if not node and request.version < node_lookup.NAMES_SINCE:
            raise errors.NodeNotFound(node=node)
        if not node:
            raise errors.MissingParameter(path="node")
        return self._validate_interfaces(request, node)

    def _validate_interfaces(self, request: Request, ident: str) -> Json:
        if request.version < node_lookup.NAMES_SINCE and not rules.uuid_like(
            rules.ident(ident, "node")
        ):
            raise errors.NotAcceptable(what="The name of a node", since=node_lookup.NAMES_SINCE)
        conductor, uuid = self._conductor_of_node(request, ident)
        return conductor.validate_driver_interfaces(request.who, node_uuid=uuid)

    # -- boot device -------------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/management/boot_device", types.word, waits=True)
    def boot_device(self, request: Request, ident: str) -> Json:
        """Return ``boot_device`` and ``persistent``, null if unknown."""
        return self._boot_device(request, ident)

    @expose.expose("GET", "/nodes/management/boot_device/{node_ident}", types.word, waits=True)
    def boot_device_named(self, request: Request, node_ident: str) -> Json:
        """Return the boot device, by the path of the first clients."""
        return self._boot_device(request, node_ident)

    @expose.expose("GET", "/nodes/management/boot_device", types.word, waits=True)
    def boot_device_asked(self, request: Request, node_ident: str) -> Json:
        """Return the boot device of the node that the query names."""
        return self._boot_device(request, node_ident)

    def _boot_device(self, request: Request, ident: str) -> Json:
        row = node_lookup.fetch(self.service, request, ident, _LOCKED)
        guards.check_unlocked(row)
        conductor = self.service.conductor_of(row)
        return conductor.get_boot_device(request.who, node_uuid=row["uuid"])

    @expose.expose("GET", "/nodes/{ident}/management/boot_device/supported", types.word)
    def boot_devices(self, request: Request, ident: str) -> Json:
        """Return the boot devices that can be set."""
        conductor, uuid = self._conductor_of_node(request, ident)
        found = conductor.get_supported_boot_devices(request.who, node_uuid=uuid)
        return {"supported_boot_devices": found}

    @expose.expose(
        "PUT",
        "/nodes/{ident}/management/boot_device",
        types.word,
        types.word,
        types.boolean,
        status=HTTPStatus.NO_CONTENT,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.at_once,
    )
    def set_boot_device(
        self, request: Request, ident: str, boot_device: str, persistent: bool | None = None
    ) -> None:
        """Set the boot device, for the next boot or persistently."""
        self._set_boot_device(request, ident, boot_device, persistent=bool(persistent))

    @expose.expose("PUT", "/nodes/{ident}/management/boot_device/supported", types.word)
    def set_boot_device_supported(self, request: Request, ident: str) -> None:
        """Refuse the boot device ``supported``, which Ironic reads from the path."""
        self._set_boot_device(request, ident, "supported", persistent=False)

    @expose.expose(
        "PUT",
        "/nodes/management/boot_device/{node_ident}",
        types.word,
        types.word,
        types.boolean,
        status=HTTPStatus.NO_CONTENT,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.at_once,
    )
    def set_boot_device_named(
        self, request: Request, node_ident: str, boot_device: str, persistent: bool | None = None
    ) -> None:
        """Set the boot device, by the path of the first clients."""
        self._set_boot_device(request, node_ident, boot_device, persistent=bool(persistent))

    def _set_boot_device(
        self, request: Request, ident: str, device: str, *, persistent: bool
    ) -> None:
        conductor, uuid = self._conductor_of_node(request, ident)
        conductor.set_boot_device(request.who, node_uuid=uuid, device=device, persistent=persistent)

    # -- clean steps -------------------------------------------------------------------------

    @expose.expose(
        "GET",
        "/nodes/{ident}/cleaning/steps",
        types.word,
        types.number,
        since=_STEPS_SINCE,
        around=preferred.steps,
    )
    def clean_steps(
        self, request: Request, ident: str, min_priority: float | None = None
    ) -> list[Json] | Json:
        """Return all clean steps, highest priority first.

        While the list is not available the response is 202, with the seconds to wait in a header.

        Source: S1.20 to S1.29.
        """
        conductor, uuid = self._conductor_of_node(request, ident)
        try:
            steps = conductor.get_clean_steps(request.who, node_uuid=uuid)
        except errors.StepsUnavailable as why:
            request.answer.status = HTTPStatus.ACCEPTED
            seconds = str(int(why.facts.get("seconds", -1)))
            request.answer.headers.append((_RETRY_HEADER, seconds))
            return {"message": why.message}
        if min_priority is None:
            return steps
        return [step for step in steps if step["priority"] >= min_priority]
