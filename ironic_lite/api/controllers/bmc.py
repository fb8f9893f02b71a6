"""Operations of a node's BMC and driver outside of verbs, and what was last read from the BMC."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Sequence
from http import HTTPStatus
from typing import TypedDict

from ironic_lite import errors
from ironic_lite.api.http import expose, refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import bmc_orders, guards, node_lookup, preferred, queries
from ironic_lite.api.validation import rules
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import reports
from ironic_lite.domain import fields, node_locks, vocabulary

_MEDIA_SHOWN_SINCE = 93
_URL = re.compile(r"[!-~]+")  # visible ASCII
_LONGEST_URL = 2048
_BETWEEN = "@"  # separates an indicator's name from its component in lists


class Indicator(TypedDict):
    """An indicator in lists."""

    name: str
    component: str
    readonly: bool
    states: list[str]
    links: refusals.LinkList


class IndicatorList(TypedDict):
    """All indicators, or those of a component."""

    indicators: list[Indicator]


class IndicatorState(TypedDict):
    """The state of an indicator."""

    state: str | None


class Bmc(expose.Controller):
    """Reads and operations on the BMC of one node, through its conductor."""

    @preferred.ordered("PUT", "/nodes/{ident}/management/inject_nmi", since=bmc_orders.NMI_SINCE)
    def inject_nmi(self, request: Request, ident: str) -> None:
        """Send a non-maskable interrupt to the machine."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        conductor.inject_nmi(request.who, node_uuid=uuid)

    # -- indicators --------------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/management/indicators")
    def lamps(self, request: Request, ident: str) -> IndicatorList:
        """List all indicators."""
        return self._list_indicators(request, ident, None)

    @expose.expose("GET", "/nodes/{ident}/management/indicators/{component}")
    def lamp_or_lamps(
        self, request: Request, ident: str, component: str
    ) -> IndicatorList | IndicatorState:
        """Return the state of indicator ``name@component``, or list those of a component."""
        if _BETWEEN in component:
            return self._get_indicator(request, ident, *_split_indicator(component))
        return self._list_indicators(request, ident, _read_component(component))

    @expose.expose("GET", "/nodes/{ident}/management/indicators/{component}/{indicator}")
    def lamp(self, request: Request, ident: str, component: str, indicator: str) -> IndicatorState:
        """Return the state of an indicator."""
        return self._get_indicator(request, ident, _read_component(component), indicator)

    @preferred.ordered("PUT", "/nodes/{ident}/management/indicators/{component}")
    def switch_named(self, request: Request, ident: str, component: str, state: str) -> None:
        """Switch the indicator ``name@component``."""
        self._set_indicator(request, ident, *_split_indicator(component), state)

    @preferred.ordered("PUT", "/nodes/{ident}/management/indicators/{component}/{indicator}")
    def switch(
        self, request: Request, ident: str, component: str, indicator: str, state: str
    ) -> None:
        """Switch an indicator."""
        self._set_indicator(request, ident, _read_component(component), indicator, state)

    def _list_indicators(
        self, request: Request, ident: str, component: str | None
    ) -> IndicatorList:
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        found = conductor.get_supported_indicators(request.who, node_uuid=uuid, component=component)
        place = f"nodes/{uuid}/management/indicators"
        return {
            "indicators": [
                {
                    "name": f"{name}{_BETWEEN}{part}",
                    "component": part,
                    "readonly": facts.get("readonly", True),
                    "states": facts.get("states", []),
                    "links": refusals.link_pair(
                        request.base, f"{place}/{urllib.parse.quote(name, safe='')}{_BETWEEN}{part}"
                    ),
                }
                for part, lamps in found.items()
                for name, facts in lamps.items()
            ]
        }

    def _get_indicator(
        self, request: Request, ident: str, component: str, indicator: str
    ) -> IndicatorState:
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        which = {"component": component, "indicator": indicator}
        return {"state": conductor.get_indicator_state(request.who, node_uuid=uuid, **which)}

    def _set_indicator(
        self, request: Request, ident: str, component: str, indicator: str, state: str
    ) -> None:
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        _one_of("state", state, vocabulary.INDICATOR_STATES)
        which = {"component": component, "indicator": indicator}
        conductor.set_indicator_state(request.who, node_uuid=uuid, **which, state=state)

    # -- virtual media -----------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/vmedia", since=bmc_orders.MEDIA_SINCE)
    def media(self, request: Request, ident: str) -> list[Json]:
        """List the virtual drives, since 1.93; POST and DELETE have had the path since 1.89."""
        if request.version < _MEDIA_SHOWN_SINCE:
            raise errors.NotFound(f"GET {request.path} needs API version 1.93 or newer.")
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        return conductor.get_virtual_media(request.who, node_uuid=uuid)

    @expose.expose(
        "POST",
        "/nodes/{ident}/vmedia",
        since=bmc_orders.MEDIA_SINCE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.TYPED,
        around=preferred.operation,
    )
    def attach(
        self,
        request: Request,
        ident: str,
        device_type: str,
        image_url: str,
        image_download_source: str = "http",
    ) -> preferred.Accepted:
        """Attach an image to a virtual drive; the BMC reads it from its URL, or the conductor."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident, "vmedia")
        _one_of("device_type", device_type, vocabulary.VIRTUAL_MEDIA)
        _one_of("image_download_source", image_download_source, vocabulary.DOWNLOAD_SOURCES)
        _check_image(image_url)
        which = {"device_type": device_type, "image_url": image_url}
        if image_download_source == vocabulary.DOWNLOAD_SOURCES[1]:
            which["image_download_source"] = image_download_source
        conductor.attach_virtual_media(request.who, node_uuid=uuid, **which)
        return preferred.Accepted(uuid)

    @expose.expose(
        "DELETE",
        ("/nodes/{ident}/vmedia", "/nodes/{ident}/vmedia/{device_types}"),
        since=bmc_orders.MEDIA_SINCE,
        status=HTTPStatus.NO_CONTENT,
        around=preferred.operation,
    )
    def detach(
        self, request: Request, ident: str, device_types: str | None = None
    ) -> preferred.Accepted:
        """Detach images from the virtual drives in a comma-separated list, or from all."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident, "vmedia")
        given = None
        if device_types is not None:
            given = list(dict.fromkeys(one.strip().lower() for one in device_types.split(",")))
            for one in given:
                _one_of("device_types", one, vocabulary.VIRTUAL_MEDIA)
        conductor.detach_virtual_media(request.who, node_uuid=uuid, device_types=given)
        return preferred.Accepted(uuid)


def _one_of(path: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        reason = f"{value[:64]!r} is not one of {', '.join(known)}"
        raise errors.InvalidParameter(path=path, reason=reason)


def _check_image(url: str) -> None:
    """Refuse a URL that no BMC can read; the error omits it, because it may contain a password."""
    try:
        parts = urllib.parse.urlsplit(url)
        fits = parts.scheme in vocabulary.IMAGE_SCHEMES and bool(parts.hostname)
        fits = fits and parts.port != 0
    except ValueError:
        fits = False
    if not fits or len(url) > _LONGEST_URL or not _URL.fullmatch(url):
        schemes = ", ".join(vocabulary.IMAGE_SCHEMES)
        reason = f"is not a URL of {schemes} with at most {_LONGEST_URL} characters"
        raise errors.InvalidParameter(path="image_url", reason=reason)


def _read_component(word: str) -> str:
    _one_of("component", word, vocabulary.COMPONENTS)
    return word


def _split_indicator(name: str) -> tuple[str, str]:
    """Return component and name of an indicator called ``name@component``."""
    indicator, between, component = name.rpartition(_BETWEEN)
    if not between or not indicator:
        reason = f"{name[:64]!r} is not of the form name@component"
        raise errors.InvalidParameter(path="indicator", reason=reason)
    return _read_component(component), indicator


# Operations of a node's driver outside of verbs: validation, boot device, clean steps.

_LOCKED = (*node_locks.COLUMNS, "driver", "conductor_group")
_STEPS_SINCE = 15  # C19
_RETRY_HEADER = "Retry-Request-After"  # S1.26


class BootDevices(TypedDict):
    """The boot devices that can be set."""

    supported_boot_devices: list[str]


class Management(expose.Controller):
    """Reads and small changes through the conductor of one node."""

    # -- validation --------------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/validate")
    def validate(self, request: Request, ident: str) -> Json:
        """Return for each interface whether the node has the settings that it needs."""
        return self._validate_interfaces(request, ident)

    @expose.expose("GET", "/nodes/validate")
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
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        return conductor.validate_driver_interfaces(request.who, node_uuid=uuid)

    # -- boot device -------------------------------------------------------------------------

    @expose.expose(
        "GET",
        (
            "/nodes/{ident}/management/boot_device",
            *("/nodes/management/boot_device/{node_ident}", "/nodes/management/boot_device"),
        ),
        waits=True,
    )
    def boot_device(self, request: Request, node_ident: str) -> Json:
        """Return ``boot_device`` and ``persistent``, null if unknown."""
        row = node_lookup.fetch(self.service, request, node_ident, _LOCKED)
        guards.check_unlocked(row)
        conductor = self.service.conductor_of(row)
        return conductor.get_boot_device(request.who, node_uuid=row["uuid"])

    @expose.expose("GET", "/nodes/{ident}/management/boot_device/supported")
    def boot_devices(self, request: Request, ident: str) -> BootDevices:
        """Return the boot devices that can be set."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        found = conductor.get_supported_boot_devices(request.who, node_uuid=uuid)
        return {"supported_boot_devices": found}

    @preferred.ordered(
        "PUT",
        ("/nodes/{ident}/management/boot_device", "/nodes/management/boot_device/{node_ident}"),
    )
    def set_boot_device(
        self, request: Request, ident: str, boot_device: str, persistent: bool | None = None
    ) -> None:
        """Set the boot device, for the next boot or persistently."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        conductor.set_boot_device(
            request.who, node_uuid=uuid, device=boot_device, persistent=bool(persistent)
        )

    @expose.expose("PUT", "/nodes/{ident}/management/boot_device/supported")
    def set_boot_device_supported(self, request: Request, ident: str) -> None:
        """Refuse the boot device ``supported``, which Ironic reads from the path."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        conductor.set_boot_device(request.who, node_uuid=uuid, device="supported", persistent=False)

    # -- clean steps -------------------------------------------------------------------------

    @expose.expose(
        "GET",
        "/nodes/{ident}/cleaning/steps",
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
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
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


# BIOS settings of a node, as last read from its BMC.

_BIOS_SINCE = 40
_ALWAYS = ("created_at", "updated_at")


class Bios(expose.Controller):
    """The list /v1/nodes/{node}/bios and its members."""

    @expose.expose("GET", "/nodes/{ident}/bios", since=_BIOS_SINCE, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return all settings of a node, sorted by name: two statements."""
        names = queries.whole(queries.BIOS_SETTINGS, request.query, version=request.version)
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        rows = self.service.database.read(lambda conn: reports.get_bios_settings(conn, node))
        return {"bios": [_setting_document(request, node, row, names) for row in rows]}

    @expose.expose("GET", "/nodes/{ident}/bios/{setting}", since=_BIOS_SINCE)
    def show(self, request: Request, ident: str, setting: str) -> Json:
        """Return one setting under its own name, since 1.74 with all its fields."""
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        row = self.service.database.read(lambda conn: reports.get_bios_setting(conn, node, setting))
        names = [field.name for field in fields.visible(fields.BIOS_SETTING, request.version)]
        return {setting: _setting_document(request, node, row, names)}


def _setting_document(request: Request, node: str, row: Json, names: Sequence[str]) -> Json:
    """Return the document of a setting; times and links are always included."""
    wanted = dict.fromkeys((*_ALWAYS, *names))
    shown = {name: row[name] for name in wanted if name != "links"}
    if "allowable_values" in shown:
        shown["allowable_values"] = row["allowable_values"] or []
    path = f"nodes/{node}/bios/{urllib.parse.quote(row['name'], safe='')}"
    return {**shown, "links": refusals.link_pair(request.base, path)}


# Firmware components of a node and their versions, as last read from its BMC.

_FIRMWARE_SINCE = 86


class Firmware(expose.Controller):
    """The list /v1/nodes/{node}/firmware."""

    @expose.expose("GET", "/nodes/{ident}/firmware", since=_FIRMWARE_SINCE, raw_query=True)
    def index(self, request: Request, ident: str) -> Json:
        """Return the components of a node, sorted by name: two statements."""
        names = queries.whole(queries.FIRMWARE, request.query, version=request.version)
        node = str(node_lookup.fetch(self.service, request, ident, ("uuid",))["uuid"])
        rows = self.service.database.read(lambda conn: reports.get_firmware(conn, node))
        wanted = tuple(dict.fromkeys((*_ALWAYS, *names)))
        return {"firmware": [{name: row[name] for name in wanted} for row in rows]}
