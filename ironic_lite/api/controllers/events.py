"""External events: the network service reports ports that it has bound."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from ironic_lite.api.resources import event_rows
from ironic_lite.api.validation import rules, shapes
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events, ports

LOG = logging.getLogger(__name__)

_SINCE = 54
_KEPT = ("port_id", "mac_address", "status", "device_id")


def _form(_self: Events, request: Request) -> None:
    _read_events(request.json)


class Events(expose.Controller):
    """/v1/events, which only accepts POST."""

    @expose.expose(
        "POST",
        "/events",
        since=_SINCE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.WHOLE,
        form=_form,
    )
    def tell(self, request: Request) -> None:
        """Record events with the nodes of their ports.

        Nothing waits for these events yet. Events of unknown ports are only logged.
        """
        reported = _read_events(request.json)
        macs = {one["mac_address"] for one in reported}

        def write(conn: Connection) -> dict[str, str]:
            owners = ports.owners(conn, macs)
            known = [one for one in reported if one["mac_address"] in owners]
            events.add(
                conn, [_event_row(request, owners[one["mac_address"]], one) for one in known]
            )
            return owners

        owners = self.service.database.write(write)
        for one in reported:
            node = owners.get(one["mac_address"], "none")
            LOG.info("Event %s of port %s: node %s", one["event"], one["port_id"], node)


def _event_row(request: Request, node_uuid: str, one: Json) -> Json:
    data = {name: one[name] for name in _KEPT if one.get(name) is not None}
    row = event_rows.of(request.who, node_uuid, "network", data)
    return {**row, "event": one["event"].partition(".")[2]}


def _read_events(body: Any) -> list[Json]:
    """Return the events of a body, checked.

    :raises errors.InvalidParameter: with the path of the invalid value.
    """
    shapes.check("events", body, "", "Invalid events")
    reported: list[Json] = []
    for place, one in enumerate(body["events"]):
        path = f"events/{place}"
        read = {**one, "port_id": rules.uuid(one["port_id"], f"{path}/port_id")}
        read["mac_address"] = rules.mac(one["mac_address"], f"{path}/mac_address")
        if one.get("device_id") is not None:
            read["device_id"] = rules.uuid(one["device_id"], f"{path}/device_id")
        rules.text(one["status"], f"{path}/status")
        reported.append(read)
    return reported
