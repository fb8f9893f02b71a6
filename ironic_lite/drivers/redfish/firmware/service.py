"""The update service of a BMC: requests to it, and the progress that it shows beside tasks.

The schema has ``Status.State`` Updating, of the update service and of each firmware (DSP0268). Some
BMCs write a word of their own below ``Oem`` of the service, such as HPE's ``Oem.Hpe.State``.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Iterator

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.arguments import Image
from ironic_lite.drivers.redfish.bmc import connection, resources, responses

_NAMES = ("State", "UpdateState", "UpdateStatus", "FlashStatus")
_ACTION = "#UpdateService.SimpleUpdate"
_DEPTH = 3
_MOST = 64
"""Limit of the objects below ``Oem`` that are searched."""

UPDATING, IDLE = "Updating", "Idle"
_BUSY = frozenset(
    [
        "activating",
        "applying",
        "busy",
        "downloading",
        "erasing",
        "flashing",
        "inprogress",
        "preparing",
        "programming",
        "running",
        "staging",
        "starting",
        "transferring",
        "updating",
        "uploading",
        "verifying",
        "writing",
    ]
)
_WRITING = frozenset(["flashing", "programming", "updating", "writing"])
"""Words that mean an update even if they were there before it was requested."""
_ENDED = frozenset(["complete", "completed", "done", "finished", "success"])
_IDLE = _ENDED | frozenset(["enabled", "idle", "none", "ok", "ready"])
_FAILED = frozenset(["critical", "error", "exception", "failed", "failure", "updatefailed"])


def read(task: base.Task) -> Json:
    """Return the document of the update service, {} if it does not exist."""
    path = resources.link(resources.root(task), "UpdateService")
    return (resources.read(task, path) if path else None) or {}


def target(service: Json) -> str | None:
    """Return the address of update requests."""
    return resources.text(service, "Actions", _ACTION, "target")


def request(task: base.Task, image: Image, service: Json) -> tuple[str, Json]:
    """Return the address and body of an update request.

    :raises errors.UnsupportedDriverExtension: the BMC does not accept updates.
    """
    place = target(service)
    if place is None:
        raise resources.lacking(task, "update", "it offers no SimpleUpdate")
    parts = urllib.parse.urlsplit(image.url)
    body: Json = {"ImageURI": image.address}
    if image.component != arguments.BMC and _has_several_systems(task):
        # Without a target, the BMC may write the image to all of them, or to another one.
        body["Targets"] = [connection.call(task, connection.Link.system_path)]
    known = resources.value(service, "Actions", _ACTION, "TransferProtocol@Redfish.AllowableValues")
    protocol = parts.scheme.upper()
    if known is None or protocol in known:
        body["TransferProtocol"] = protocol
    # Not inside the URL, which BMCs write into their logs.
    if parts.username:
        body["Username"] = urllib.parse.unquote(parts.username)
    if parts.password:
        body["Password"] = urllib.parse.unquote(parts.password)
    return place, body


def _has_several_systems(task: base.Task) -> bool:
    path = resources.link(resources.root(task), "Systems")
    systems = (resources.read(task, path) if path else None) or {}
    return len(resources.entries(systems, "Members")) > 1


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """Meaning of a word. ``changed``: it says now that an update has ended, and did not before."""

    busy: bool = False
    failed: bool = False
    idle: bool = False
    changed: bool = False


def word(task: base.Task, service: Json) -> str | None:
    """Return the BMC's word for its update, None if it does not show one.

    :param service: the document of the update service.
    :raises errors.HardwareError: the BMC does not answer.
    """
    told = _service_word(service)
    if _key(told) in _WRITING:
        return told
    states = [resources.text(service, "Status", "State")]
    try:
        inventory = resources.link(service, "FirmwareInventory")
        for one in resources.members(task, inventory, spare=_skip_unreadable):
            states.append(resources.text(one, "Status", "State"))
    except errors.BmcBadAnswer:
        return told
    return UPDATING if UPDATING in states else told or (IDLE if any(states) else None)


def _skip_unreadable(why: errors.HardwareError) -> None:
    if not isinstance(why, errors.BmcBadAnswer):
        raise why


def state(now: str | None, before: str | None, *, worked: bool = False) -> State:
    """Return the meaning of a word.

    A word that says nothing about firmware means work if it is another one than before the request,
    because some services always say that they are running.

    :param before: the word from before the request.
    :param worked: the BMC has shown since then that it works.
    """
    key, other = _key(now), now != before
    if key in _WRITING or (key in _BUSY and other):
        return State(busy=True)
    if key in _FAILED:
        failed = other or worked
        return State(failed=failed, idle=not failed)
    if key in _IDLE or key in _BUSY or not other:
        ended = not worked and key in _ENDED and _key(before) not in {"", *_ENDED}
        return State(idle=now is not None, changed=ended)
    return State(busy=now is not None)


def message(service: Json) -> str | None:
    """Return the reason of a failure that the service shows, None if it shows none."""
    for part in _objects(resources.value(service, "Oem")):
        result = part.get("Result")
        if isinstance(result, dict) and (said := responses.entry_text(result)):
            return said
    return None


def _service_word(service: Json) -> str | None:
    if resources.text(service, "Status", "State") == UPDATING:
        return UPDATING
    for part in _objects(resources.value(service, "Oem")):
        told = next(filter(None, (resources.text(part, name) for name in _NAMES)), None)
        if told is not None:
            return told
    return None


def _objects(value: object) -> Iterator[Json]:
    """Yield the objects below ``Oem``, the outer ones first."""
    level = [value]
    left = _MOST
    for _ in range(_DEPTH):
        found = [one for one in level if isinstance(one, dict)][:left]
        yield from found
        left -= len(found)
        level = [child for one in found for child in one.values()]


def _key(told: str | None) -> str:
    return "".join(filter(str.isalpha, told or "")).lower()
