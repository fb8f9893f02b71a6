"""Event subscriptions of a BMC, and Ironic's deprecated method to eject virtual media."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import hardware, virtual_media
from ironic_lite.drivers.redfish.bmc import connection, resources
from ironic_lite.drivers.redfish.bmc import library as sushy

_SHOWN = ("Id", "Context", "Protocol", "Destination", "EventTypes")
_NUMBER = re.compile(r"[\w.:~-]{1,255}")
_DEVICES: Mapping[str, str] = {
    "cd": "cdrom",
    "dvd": "cdrom",
    "usb": "disk",
    "floppy": "floppy",
    **{device: device for device in virtual_media.TYPES},
}
_USUAL = "Alert"
_REFUSALS = frozenset({400, 405, 409, 422, 501})
"""HTTP statuses of BMCs that do not take a request because of what it says."""
_TEXTS, _LISTS = ("Context", "Protocol"), ("EventTypes", "HttpHeaders")
_TAKEN: Mapping[str, tuple[str, ...]] = {
    "create_subscription": ("Destination", *_TEXTS, *_LISTS),
    "delete_subscription": ("id",),
    "get_subscription": ("id",),
    "eject_vmedia": ("boot_device",),
}


class RedfishVendor(hardware.RedfishInterface, base.Vendor):
    """The vendor interface ``redfish``."""

    def check_passthru(self, task: base.Task, name: str, call: base.Call) -> None:
        """Reject invalid arguments before a request is sent to the BMC.

        :raises errors.MissingParameter, errors.InvalidParameter: naming the argument.
        """
        super().check_passthru(task, name, call)
        taken = _TAKEN.get(name, ())
        for key in call.info:
            if key not in taken:
                reason = f"{name} takes {', '.join(taken) or 'nothing'}"
                raise errors.InvalidParameter(path=key[:80], reason=reason)
        if "id" in taken:
            _subscription_number(call.info)
        if name == "create_subscription":
            _subscription_body(call.info)
        if name == "eject_vmedia":
            _device_list(call.info)

    @base.passthru(
        description="Have the BMC send its events to the address Destination. Context, Protocol, "
        "EventTypes and HttpHeaders are optional.",
    )
    def create_subscription(self, task: base.Task, call: base.Call) -> Json:
        """Return Id, Context, Protocol, Destination and EventTypes of the new subscription.

        EventTypes is deprecated (EventDestination v1.5), and BMCs that know it no more refuse it.
        Without the argument, ``Alert`` is sent to those that may know it.

        :raises errors.InvalidParameter: the BMC does not support one of ``EventTypes``, or refuses
            the request.
        """
        service = _event_service(task)
        payload = _subscription_body(call.info)
        known = _text_list(service, "EventTypesForSubscription")
        odd = set(call.info.get("EventTypes") or ()).difference(known)
        if known and odd:
            reason = f"this BMC does not have {', '.join(sorted(odd))}, but {', '.join(known)}"
            raise errors.InvalidParameter(path="EventTypes", reason=reason)
        place = _subscriptions_path(service, task)
        bodies = [payload]
        if call.info.get("EventTypes") is None and (not known or _USUAL in known):
            bodies.insert(0, {**payload, "EventTypes": [_USUAL]})

        def work(link: connection.Link) -> tuple[str | None, Any]:
            answer = _first_accepted(link, place, bodies)
            return answer.headers.get("Location"), answer.json() if answer.content else None

        try:
            path, made = connection.call(task, work, read=False)
        except errors.BmcBadAnswer as why:
            if why.facts.get("http_status") not in _REFUSALS:
                raise
            reason = f"the BMC refused the subscription: {why.facts['reason']}"
            raise errors.InvalidParameter(path="create_subscription", reason=reason) from why
        if path and resources.text(made, "Id") is None:
            made = resources.read(task, resources.path(path))
        return _shown_subscription(made if isinstance(made, dict) else {})

    @base.passthru(
        methods=("DELETE",), description="Remove the subscription that the key id names."
    )
    def delete_subscription(self, task: base.Task, call: base.Call) -> None:
        """Delete a subscription.

        :raises errors.NotFound: the BMC has no such subscription.
        """
        path = _subscription_path(task, call.info)
        if resources.read(task, path) is None:
            raise _subscription_absent(call.info)
        connection.call(task, lambda link: link.wire.delete(path), read=False)

    @base.passthru(methods=("GET",), lock=False, description="Return all subscriptions.")
    def get_all_subscriptions(self, task: base.Task, call: base.Call) -> Json:
        """Return the BMC's collection of subscriptions unchanged."""
        return resources.read(task, _subscriptions_path(_event_service(task), task)) or {}

    @base.passthru(
        methods=("GET",), lock=False, description="Return the subscription that the key id names."
    )
    def get_subscription(self, task: base.Task, call: base.Call) -> Json:
        """Return Id, Context, Protocol, Destination and EventTypes of a subscription.

        :raises errors.NotFound: the BMC has no such subscription.
        """
        found = resources.read(task, _subscription_path(task, call.info))
        if found is None:
            raise _subscription_absent(call.info)
        return _shown_subscription(found)

    @base.passthru(
        async_call=True,
        description="Empty the virtual drives, or those for boot_device: cd, dvd, usb or floppy. "
        "DELETE /v1/nodes/{node}/vmedia does the same on every driver.",
    )
    def eject_vmedia(self, task: base.Task, call: base.Call) -> None:
        """Empty the virtual drives."""
        virtual_media.empty_drives(task, _device_list(call.info))


# -- arguments -------------------------------------------------------------------------------


def _subscription_body(info: JsonView) -> Json:
    """Return the body of the request to the BMC (DSP0266, EventDestination)."""
    if info.get("Destination") is None:
        raise errors.MissingParameter(path="Destination")
    for key in _TEXTS:
        _check_value(key, info.get(key, ""), lambda value: isinstance(value, str), "must be a text")
    for key in _LISTS:
        _check_value(key, info.get(key), _is_list, "is no list")
    _check_value("EventTypes", info.get("EventTypes"), _is_words, "is no list of texts")
    _check_value(
        "Destination", info["Destination"], _is_address, "is no address such as https://host/path"
    )
    payload = {
        "Destination": info["Destination"],
        "Protocol": info.get("Protocol", "Redfish"),
        "Context": info.get("Context", ""),
    }
    return {**payload, **{key: info[key] for key in _LISTS if info.get(key)}}


def _first_accepted(link: connection.Link, place: str, bodies: list[Json]) -> Any:
    """Return the answer to the first body that the BMC does not refuse; the last one raises."""
    for body in bodies[:-1]:
        try:
            return link.wire.post(place, data=body)
        except sushy.exceptions.HTTPError as why:
            if why.status_code not in _REFUSALS:
                raise
    return link.wire.post(place, data=bodies[-1])


def _check_value(key: str, value: object, good: Callable[[Any], bool], reason: str) -> None:
    if not good(value):
        raise errors.InvalidParameter(path=key, reason=reason)


def _is_list(value: object) -> bool:
    return value is None or isinstance(value, list)


def _is_words(value: Any) -> bool:
    return all(isinstance(word, str) for word in value or ())


def _is_address(value: object) -> bool:
    try:
        place = urllib.parse.urlsplit(value if isinstance(value, str) else "")
        return bool(place.scheme and place.hostname)
    except ValueError:
        return False


def _subscription_number(info: JsonView) -> str:
    if info.get("id") in (None, ""):
        raise errors.MissingParameter(path="id")
    number = str(info["id"])
    if not _NUMBER.fullmatch(number) or number in (".", ".."):
        raise errors.InvalidParameter(path="id", reason="is no Id of a subscription")
    return number


def _device_list(info: JsonView) -> list[str] | None:
    named = info.get("boot_device")
    if not named:
        return None
    device = _DEVICES.get(str(named).lower())
    if device is None:
        reason = f"must be one of {', '.join(_DEVICES)}"
        raise errors.InvalidParameter(path="boot_device", reason=reason)
    return [device]


# -- finding resources -----------------------------------------------------------------------


def _event_service(task: base.Task) -> Json:
    place = resources.link(resources.root(task), "EventService")
    found = resources.read(task, place) if place else None
    if found is None:
        raise resources.lacking(task, "subscriptions", "it has no EventService")
    return found


def _subscriptions_path(service: Json, task: base.Task) -> str:
    place = resources.link(service, "Subscriptions")
    if place is None:
        raise resources.lacking(task, "subscriptions", "its EventService lists none")
    return place.rstrip("/")


def _subscription_path(task: base.Task, info: JsonView) -> str:
    return f"{_subscriptions_path(_event_service(task), task)}/{_subscription_number(info)}"


def _subscription_absent(info: JsonView) -> errors.NotFound:
    return errors.NotFound(what="Subscription", ident=_subscription_number(info))


def _text_list(document: Json, name: str) -> list[str]:
    found = document.get(name)
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def _shown_subscription(document: Json) -> Json:
    return {key: document[key] for key in _SHOWN if key in document}
