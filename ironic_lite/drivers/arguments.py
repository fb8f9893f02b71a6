"""Declaration of the BMC's steps, and parsing of their arguments, shared by all drivers. Pure.

No value of a setting is repeated in an error, because it may be a firmware password.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import reprlib
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain.raid import APPLY_ARGS
from ironic_lite.domain.steps import Arg, Method, clean_step, deploy_step, service_step

BIOS_ARGS: Mapping[str, Arg] = {
    "settings": Arg('List of {"name": ..., "value": ...}: the settings to change.', required=True)
}
FIRMWARE_ARGS: Mapping[str, Arg] = {
    "settings": Arg(
        'List of {"component": "bios", "bmc" or "nic:<which>", "url": http or https, "wait": '
        "seconds to wait afterwards}: the images to write, in this order.",
        required=True,
    )
}


def bmc_step(
    *, destroys: tuple[str, ...], restarts: int | None = None, argsinfo: JsonView | None = None
) -> Callable[[Method], Method]:
    """Mark a method as a clean, deploy and service step that the BMC does, without a ramdisk.

    It runs on request only, may be repeated after a crash, and its effect outlives restarts.
    Parameters are those of `steps.clean_step`.
    """
    about: Any = {"argsinfo": argsinfo, "destroys": destroys, "restarts": restarts}
    marks = (
        service_step(requires_ramdisk=False, rerunnable=True, **about),
        deploy_step(priority=0, rerunnable=True, lasting=True, **about),
        clean_step(priority=0, requires_ramdisk=False, **about),
    )
    return _marking(marks)


def volumes_step(
    *, requires_ramdisk: bool = False, abortable: bool = True, restarts: int | None = None
) -> Callable[[Method], Method]:
    """Mark ``apply_configuration`` of a RAID interface as a deploy and service step."""
    about: Any = {
        **{"argsinfo": APPLY_ARGS, "rerunnable": True, "restarts": restarts},
        "destroys": ("data", "volumes"),
    }
    marks = (
        service_step(requires_ramdisk=requires_ramdisk, **about),
        deploy_step(priority=0, abortable=abortable, lasting=True, **about),
    )
    return _marking(marks)


def _marking(marks: Sequence[Callable[[Method], Method]]) -> Callable[[Method], Method]:
    return lambda method: functools.reduce(lambda marked, mark: mark(marked), marks, method)


BIOS, BMC, NIC = "bios", "bmc", "nic:"
LONGEST_WAIT = 24 * 3600
"""Limit in seconds; a longer wait is a typing error."""
_SCHEMES = ("http", "https")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """One firmware image: its component, its URL, and the wait afterwards in seconds."""

    component: str
    url: str
    wait: int = 0

    @property
    def address(self) -> str:
        """The URL without user and password."""
        parts = urllib.parse.urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def shown(self) -> str:
        """The URL for logs and errors, without the key of a signed URL."""
        return masking.address(self.address)

    def hide(self, text: str) -> str:
        """Return a BMC's message without the secrets of the URL, which the BMC may repeat."""
        parts = urllib.parse.urlsplit(self.url)
        for secret in {parts.query, parts.password, urllib.parse.unquote(parts.password or "")}:
            text = text.replace(secret, masking.MASK) if secret else text
        return text


def settings(value: object) -> Json:
    """Return a list of settings as name -> value; a later entry wins.

    :raises errors.InvalidParameter: naming ``settings/<position>``.
    """
    found: Json = {}
    for position, entry in enumerate(_read_entries(value, "name and value")):
        path = f"settings/{position}"
        if set(entry) != {"name", "value"}:
            raise _refuse_argument(
                path, "must be a dictionary with name and value, and nothing else"
            )
        if not isinstance(entry["name"], str) or not entry["name"]:
            raise _refuse_argument(f"{path}/name", "is not a name")
        found[entry["name"]] = entry["value"]
    return found


def images(value: object) -> list[Image]:
    """Return the firmware images in order.

    :raises errors.InvalidParameter: naming ``settings/<position>``.
    """
    return [
        _read_image(f"settings/{position}", entry)
        for position, entry in enumerate(_read_entries(value, "component and url"))
    ]


def _read_entries(value: object, what: str) -> list[Json]:
    if not isinstance(value, list) or not value:
        raise _refuse_argument("settings", f"must be a list of at least one dictionary with {what}")
    for position, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise _refuse_argument(f"settings/{position}", f"must be a dictionary with {what}")
    return value


def _read_image(path: str, entry: JsonView) -> Image:
    missing = [key for key in ("component", "url") if key not in entry]
    if missing:
        raise _refuse_argument(f"{path}/{missing[0]}", "is required")
    unknown = sorted(set(entry) - {"component", "url", "wait"})
    if unknown:
        key = reprlib.repr(unknown[0])
        raise _refuse_argument(path, f"{key} is not a known key; known are component, url, wait")
    component = entry["component"]
    named = isinstance(component, str) and component.startswith(NIC) and component != NIC
    if component not in (BIOS, BMC) and not named:
        reason = f"{errors.shown(component)} is not bios, bmc or nic:<which>"
        raise _refuse_argument(f"{path}/component", reason)
    return Image(
        component, _read_url(f"{path}/url", entry["url"]), _read_wait(path, entry.get("wait", 0))
    )


def _read_url(path: str, value: object) -> str:
    if not isinstance(value, str) or _CONTROL.search(value):
        raise _refuse_argument(path, "must be a URL without blanks")
    try:
        parts = urllib.parse.urlsplit(value)
        host = parts.hostname
    except ValueError as why:
        raise _refuse_argument(path, f"is not a URL ({why})") from None
    if parts.scheme not in _SCHEMES or not host:
        word = reprlib.repr(parts.scheme)
        raise _refuse_argument(path, f"its scheme is {word}; use http or https")
    return value


def _read_wait(path: str, value: object) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or not 0 <= value <= LONGEST_WAIT:  # type: ignore[operator]  # fits
        reason = f"{errors.shown(value)} is not a whole number of seconds from 0 to {LONGEST_WAIT}"
        raise _refuse_argument(f"{path}/wait", reason)
    return value  # type: ignore[return-value]  # narrowed by the isinstance above


def _refuse_argument(path: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=path, reason=reason)
