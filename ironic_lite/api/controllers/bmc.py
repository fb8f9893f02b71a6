"""Operations of a node's BMC outside of verbs: NMI, indicators, virtual media."""

from __future__ import annotations

import re
import urllib.parse
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import bmc_orders, node_lookup, preferred
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose, links
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.domain import bmc_vocabulary
from ironic_lite.rpc import interface

_ROUTED = ("uuid", "driver", "conductor_group", "provision_state")
_MEDIA_SHOWN_SINCE = 93
_URL = re.compile(r"[!-~]+")  # visible ASCII
_LONGEST_URL = 2048
_BETWEEN = "@"  # separates an indicator's name from its component in lists


class Bmc(expose.Controller):
    """Reads and operations on the BMC of one node, through its conductor."""

    def _conductor_of_node(
        self, request: Request, ident: str, changing: str | None = None
    ) -> tuple[interface.Conductor, str]:
        """Return the conductor of a node, and the node's UUID.

        :param changing: the order, if its request changes something.
        """
        row = node_lookup.fetch(self.service, request, ident, _ROUTED)
        if changing is not None:
            bmc_orders.check_rest(changing, row)
        return self.service.conductor_of(row), row["uuid"]

    @expose.expose(
        "PUT",
        "/nodes/{ident}/management/inject_nmi",
        types.word,
        since=bmc_orders.NMI_SINCE,
        status=HTTPStatus.NO_CONTENT,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.at_once,
    )
    def inject_nmi(self, request: Request, ident: str) -> None:
        """Send a non-maskable interrupt to the machine."""
        conductor, uuid = self._conductor_of_node(request, ident)
        conductor.inject_nmi(request.who, node_uuid=uuid)

    # -- indicators --------------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/management/indicators", types.word)
    def lamps(self, request: Request, ident: str) -> Json:
        """List all indicators."""
        return self._list_indicators(request, ident, None)

    @expose.expose(
        "GET",
        "/nodes/{ident}/management/indicators/{component}",
        types.word,
        types.word,
        first=node_lookup.present,
    )
    def lamp_or_lamps(self, request: Request, ident: str, component: str) -> Json:
        """Return the state of indicator ``name@component``, or list those of a component."""
        if _BETWEEN in component:
            return self._get_indicator(request, ident, *_split_indicator(component))
        return self._list_indicators(request, ident, _read_component(component))

    @expose.expose(
        "GET",
        "/nodes/{ident}/management/indicators/{component}/{indicator}",
        types.word,
        types.word,
        types.word,
    )
    def lamp(self, request: Request, ident: str, component: str, indicator: str) -> Json:
        """Return the state of an indicator."""
        return self._get_indicator(request, ident, _read_component(component), indicator)

    @expose.expose(
        "PUT",
        "/nodes/{ident}/management/indicators/{component}",
        types.word,
        types.word,
        types.word,
        status=HTTPStatus.NO_CONTENT,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.at_once,
    )
    def switch_named(self, request: Request, ident: str, component: str, state: str) -> None:
        """Switch the indicator ``name@component``."""
        self._set_indicator(request, ident, *_split_indicator(component), state)

    @expose.expose(
        "PUT",
        "/nodes/{ident}/management/indicators/{component}/{indicator}",
        types.word,
        types.word,
        types.word,
        types.word,
        status=HTTPStatus.NO_CONTENT,
        body=expose.TYPED,
        first=node_lookup.present,
        around=preferred.at_once,
    )
    def switch(
        self, request: Request, ident: str, component: str, indicator: str, state: str
    ) -> None:
        """Switch an indicator."""
        self._set_indicator(request, ident, _read_component(component), indicator, state)

    def _list_indicators(self, request: Request, ident: str, component: str | None) -> Json:
        conductor, uuid = self._conductor_of_node(request, ident)
        found = conductor.get_supported_indicators(request.who, node_uuid=uuid, component=component)
        place = f"nodes/{uuid}/management/indicators"
        return {
            "indicators": [
                {
                    "name": f"{name}{_BETWEEN}{part}",
                    "component": part,
                    "readonly": facts.get("readonly", True),
                    "states": facts.get("states", []),
                    "links": links.pair(
                        request.base, f"{place}/{urllib.parse.quote(name, safe='')}{_BETWEEN}{part}"
                    ),
                }
                for part, lamps in found.items()
                for name, facts in lamps.items()
            ]
        }

    def _get_indicator(self, request: Request, ident: str, component: str, indicator: str) -> Json:
        conductor, uuid = self._conductor_of_node(request, ident)
        which = {"component": component, "indicator": indicator}
        return {"state": conductor.get_indicator_state(request.who, node_uuid=uuid, **which)}

    def _set_indicator(
        self, request: Request, ident: str, component: str, indicator: str, state: str
    ) -> None:
        _one_of("state", state, bmc_vocabulary.INDICATOR_STATES)
        conductor, uuid = self._conductor_of_node(request, ident)
        which = {"component": component, "indicator": indicator}
        conductor.set_indicator_state(request.who, node_uuid=uuid, **which, state=state)

    # -- virtual media -----------------------------------------------------------------------

    @expose.expose("GET", "/nodes/{ident}/vmedia", types.word, since=bmc_orders.MEDIA_SINCE)
    def media(self, request: Request, ident: str) -> list[Json]:
        """List the virtual drives, since 1.93; POST and DELETE have had the path since 1.89."""
        if request.version < _MEDIA_SHOWN_SINCE:
            raise errors.NotFound(f"GET {request.path} needs API version 1.93 or newer.")
        conductor, uuid = self._conductor_of_node(request, ident)
        return conductor.get_virtual_media(request.who, node_uuid=uuid)

    @expose.expose(
        "POST",
        "/nodes/{ident}/vmedia",
        types.word,
        types.word,
        types.word,
        types.word,
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
        """Attach an image to a virtual drive; the BMC reads the image from its URL."""
        _one_of("device_type", device_type, bmc_vocabulary.VIRTUAL_MEDIA)
        _one_of("image_download_source", image_download_source, ("http",))
        _check_image(image_url)
        conductor, uuid = self._conductor_of_node(request, ident, "vmedia")
        conductor.attach_virtual_media(
            request.who, node_uuid=uuid, device_type=device_type, image_url=image_url
        )
        return preferred.Accepted(uuid)

    @expose.expose(
        "DELETE",
        "/nodes/{ident}/vmedia",
        types.word,
        types.word,
        since=bmc_orders.MEDIA_SINCE,
        status=HTTPStatus.NO_CONTENT,
        around=preferred.operation,
    )
    def detach(
        self, request: Request, ident: str, device_types: str | None = None
    ) -> preferred.Accepted:
        """Detach images from the virtual drives in a comma-separated list, or from all."""
        return self._detach_media(request, ident, device_types)

    @expose.expose(
        "DELETE",
        "/nodes/{ident}/vmedia/{device_types}",
        types.word,
        types.word,
        since=bmc_orders.MEDIA_SINCE,
        status=HTTPStatus.NO_CONTENT,
        around=preferred.operation,
    )
    def detach_named(self, request: Request, ident: str, device_types: str) -> preferred.Accepted:
        """Detach images from the virtual drives that the path names."""
        return self._detach_media(request, ident, device_types)

    def _detach_media(
        self, request: Request, ident: str, device_types: str | None
    ) -> preferred.Accepted:
        given = None
        if device_types is not None:
            given = list(dict.fromkeys(one.strip().lower() for one in device_types.split(",")))
            for one in given:
                _one_of("device_types", one, bmc_vocabulary.VIRTUAL_MEDIA)
        conductor, uuid = self._conductor_of_node(request, ident, "vmedia")
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
        fits = parts.scheme in bmc_vocabulary.IMAGE_SCHEMES and bool(parts.hostname)
        fits = fits and parts.port != 0
    except ValueError:
        fits = False
    if not fits or len(url) > _LONGEST_URL or not _URL.fullmatch(url):
        schemes = ", ".join(bmc_vocabulary.IMAGE_SCHEMES)
        reason = f"is not a URL of {schemes} with at most {_LONGEST_URL} characters"
        raise errors.InvalidParameter(path="image_url", reason=reason)


def _read_component(word: str) -> str:
    _one_of("component", word, bmc_vocabulary.COMPONENTS)
    return word


def _split_indicator(name: str) -> tuple[str, str]:
    """Return component and name of an indicator called ``name@component``."""
    indicator, between, component = name.rpartition(_BETWEEN)
    if not between or not indicator:
        reason = f"{name[:64]!r} is not of the form name@component"
        raise errors.InvalidParameter(path="indicator", reason=reason)
    return _read_component(component), indicator
