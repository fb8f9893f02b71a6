"""The advice of an explanation: what to do next about a failed or an overdue node. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.domain import waiting
from ironic_lite.domain.failures import Failure
from ironic_lite.domain.holds import Hold
from ironic_lite.domain.offers import Offer
from ironic_lite.domain.waiting import Wait

_IN_DOUBT = "Look at the machine: the step may still be under way, or may have ended."
_NO_RAMDISK = (
    "Look at the console of the machine: it has to boot the ramdisk, and the ramdisk has to reach "
    "the API."
)
_IMAGE = "Check the address and the checksum of the image."
_FIELD = "Correct the field that the reason names."
_OF_CAUSE: Mapping[str, str] = MappingProxyType(
    {
        error.__name__: text
        for error, text in (
            (errors.BmcUnreachable, "Check the power, the address and the network of the BMC."),
            (errors.BmcAccessDenied, "Correct the user name and the password in driver_info."),
            (errors.BmcBadAnswer, "Restart the BMC, or update its firmware."),
            (errors.BmcTaskFailed, "Read the event log of the BMC."),
            (errors.PowerFailure, "Check the power supply of the machine, and its BMC."),
            (errors.ImageUnusable, _IMAGE),
            (errors.DownloadFailed, _IMAGE),
            (errors.AgentUnreachable, _NO_RAMDISK),
            (errors.TimedOut, _NO_RAMDISK),
            (errors.DeadlinePassed, _IN_DOUBT),
            (errors.StepInterrupted, _IN_DOUBT),
            (errors.Interrupted, _IN_DOUBT),
            (errors.InvalidParameter, _FIELD),
            (errors.MissingParameter, _FIELD),
            (errors.DataNotProven, "Erase the disks, or declare the state of the data."),
            (errors.LibraryMissing, "Install what the reason names on the conductor's machine."),
            (errors.DiskFull, "Free some space on the disk of the conductor's machine."),
            (errors.Aborted, "Nothing needs fixing: it was ended on request."),
        )
    }
)
"""How to fix a cause, by its code."""
_OTHERWISE = "Read the log of the run, and fix the cause."
_OUTSIDE = "Fix the cause."
_ITSELF = "There is nothing to do: the service retries it by itself."
_OVERDUE = "Look at the console of the machine; stop the run if its step does nothing any more."


def of(
    failure: Failure | None,
    wait: Wait | None,
    overdue: Json | None,
    held: Sequence[Hold],
    offers: Sequence[Offer],
) -> str | None:
    """Return what to do next as one or two sentences; None if the node needs nothing.

    :param failure: the failure that the node stands in.
    :param wait: the wait of the node.
    :param overdue: the step under way that takes unusually long.
    :param held: the holds in force.
    :param offers: the verbs that the state offers.
    """
    if wait is not None and wait.what == waiting.RETRY:
        return _ITSELF
    if failure is None:
        return _OVERDUE if overdue else None
    otherwise = _OTHERWISE if failure.run is not None else _OUTSIDE
    code = str((failure.cause or {}).get("code") or failure.code)
    return " ".join(filter(None, (_OF_CAUSE.get(code, otherwise), _then(held, offers))))


def _then(held: Sequence[Hold], offers: Sequence[Offer]) -> str:
    """Return the verb after the fix: a retry continues where the run has failed."""
    possible = [offer.target for offer in offers if offer.refusal is None]
    if possible:
        return f"Then use {'retry' if 'retry' in possible else possible[0]}."
    return "Then lift the hold." if held else ""
