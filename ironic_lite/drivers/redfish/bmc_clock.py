"""The clock of a BMC: a step sets it, because wrong clocks break certificates and log times."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Mapping

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json
from ironic_lite.domain.steps import Arg
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish.bmc import resources

ARGS: Mapping[str, Arg] = {
    "target_datetime": Arg(
        "The time to set in the format of ISO 8601, in UTC unless it has an offset. Default: the "
        "conductor's time."
    ),
    "datetime_local_offset": Arg("The offset of the BMC's local time from UTC, such as +02:00."),
}

LOOKS, LOOK_PAUSE = 4, 2.0
"""Number and interval in seconds of the checks whether the clock has been set."""

NEAR = 10.0
"""Seconds by which the clock may differ afterwards, as the request itself takes time."""

_OFFSET = re.compile(r"[+-]\d\d:\d\d")


def set_time(task: base.Task, target: object, offset: object) -> None:
    """Set the clock of the BMC, and check that the BMC shows the time.

    :param target: a time as in ``ARGS``, None for now.
    :param offset: the offset to set as in ``ARGS``, None to leave it.
    :raises errors.InvalidParameter: an argument is no time or no offset.
    :raises errors.UnsupportedDriverExtension: the BMC shows no clock.
    :raises errors.HardwareError: the BMC refused, or shows another time.
    """
    zone, moment = _read_zone(offset), _read_time(target)
    manager = _with_clock(task)
    shown = str(manager["DateTime"])
    zone = zone or _known_zone(manager)
    moment = moment or clock.now().replace(tzinfo=datetime.UTC)
    # A BMC without fractions of seconds refuses them.
    exact = "microseconds" if "." in shown else "seconds"
    body: Json = {"DateTime": moment.astimezone(zone).isoformat(timespec=exact)}
    if offset is not None:
        body["DateTimeLocalOffset"] = offset
    path = str(manager["@odata.id"])
    sent = time.monotonic()
    resources.change(task, path, body)
    _await_time(task, path, moment, sent)


def _with_clock(task: base.Task) -> Json:
    """Return the first manager of the system that shows a time."""
    for manager in resources.managers(task, resources.system(task)):
        if resources.text(manager, "DateTime") and resources.text(manager, "@odata.id"):
            return manager
    raise resources.lacking(task, "set_bmc_clock", "no manager of the system shows DateTime")


def _await_time(task: base.Task, path: str, moment: datetime.datetime, sent: float) -> None:
    """Wait until the BMC shows the time that was set; a time that cannot be parsed is accepted."""
    for look in range(LOOKS):
        manager = resources.read(task, path) or {}
        shown = _shown_time(manager)
        wanted = moment + datetime.timedelta(seconds=time.monotonic() - sent)
        if shown is None or abs((shown - wanted).total_seconds()) <= NEAR:
            return
        if look < LOOKS - 1:
            task.pause(LOOK_PAUSE)
    raise errors.HardwareError(
        reason=f"The BMC accepted the time {moment.isoformat()} but shows "
        f"{resources.text(manager, 'DateTime')} at {path}. Check whether it takes its time from "
        "NTP or from the machine."
    )


def _shown_time(manager: Json) -> datetime.datetime | None:
    try:
        found = datetime.datetime.fromisoformat(resources.text(manager, "DateTime") or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=_known_zone(manager))


def _known_zone(manager: Json) -> datetime.tzinfo:
    """Return the zone in which the BMC shows its time; UTC if it does not say."""
    for text in (
        resources.text(manager, "DateTime"),
        resources.text(manager, "DateTimeLocalOffset"),
    ):
        found = re.search(r"(Z|[+-]\d\d:\d\d)$", text or "")
        if found and text:
            return _read_offset(found[0])
    return datetime.UTC


def _read_offset(text: str) -> datetime.tzinfo:
    zone = datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo
    return zone or datetime.UTC


# -- arguments ---------------------------------------------------------------------------------


def _read_time(target: object) -> datetime.datetime | None:
    if target is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(str(target))
    except ValueError:
        reason = f"{str(target)[:64]!r} is no time such as 2026-01-31T12:00:00+00:00"
        raise errors.InvalidParameter(path="target_datetime", reason=reason) from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _read_zone(offset: object) -> datetime.tzinfo | None:
    if offset is None:
        return None
    try:
        if isinstance(offset, str) and _OFFSET.fullmatch(offset):
            return _read_offset(offset)
    except ValueError:
        pass
    reason = f"{str(offset)[:64]!r} is no offset such as +02:00"
    raise errors.InvalidParameter(path="datetime_local_offset", reason=reason)
