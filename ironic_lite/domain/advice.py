"""The advice of an explanation: what to do next about a failed or an overdue node. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.domain import waiting
from ironic_lite.domain.failures import Failure
from ironic_lite.domain.offers import Offer
from ironic_lite.domain.states import State
from ironic_lite.domain.waiting import Wait

_IN_DOUBT = "Look at the machine: the step may still be under way, or may have ended."
_NO_RAMDISK = (
    "Look at the console of the machine: it has to boot the ramdisk, and the ramdisk has to reach "
    "the API."
)
_IMAGE = "Check the address and the checksum of the image."
_FIELD = "Correct the field that the reason names."
_STEP = "Correct the step that the reason names: in the request, runbook or template."
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
            (errors.TimedOut, _IN_DOUBT),  # a silent agent is AgentUnreachable
            (errors.DeadlinePassed, _IN_DOUBT),
            (errors.StepInterrupted, _IN_DOUBT),
            (errors.Interrupted, _IN_DOUBT),
            (errors.InvalidParameter, _FIELD),
            (errors.MissingParameter, _FIELD),
            (errors.DataNotProven, "Erase the disks, or declare the state of the data."),
            (errors.LibraryMissing, "Install what the reason names on the conductor's machine."),
            (errors.DiskFull, "Free some space on the disk of the conductor's machine."),
            (errors.Aborted, "It was ended on request; find out why before you retry."),
        )
    }
)
"""Fixes of causes, by the code of the cause."""
_RESTORED = (
    "Check the machine: it may have been in use since the backup. Retry only if its data may be "
    "lost."
)
_OTHERWISE = "Read the log of the run, and fix the cause."
_OUTSIDE = "Fix the cause."
_ITSELF = "There is nothing to do: the service retries it by itself."
_MAINTENANCE = "End the maintenance when the cause of its fault is fixed: DELETE .../maintenance."
_CONSOLE = "Look at the console of the machine."
_ABORT = "If its step does nothing any more, use abort."
_HANGS = "If its step hangs, the conductor fails it after [conductor]work_timeout or busy_timeout."

REMEDIES: Mapping[State, tuple[str, ...]] = MappingProxyType(
    {
        State.ENROLL: ("manage",),
        State.INSPECTFAIL: ("inspect",),
        State.CLEANFAIL: ("retry", "manage"),
        State.DEPLOYFAIL: ("retry",),
        State.ADOPTFAIL: ("adopt",),
        State.RESCUEFAIL: ("rescue",),
        State.UNRESCUEFAIL: ("unrescue",),
        State.SERVICEFAIL: ("retry",),
    }
)
"""Verbs that continue after a failure, by state, the best first.

None of them erases or deploys what the failed run would not have. In other states no verb is a
remedy: after a failed power order of an active node, each possible verb would change the instance.
"""


def of(
    failure: Failure | None,
    wait: Wait | None,
    overdue: Json | None,
    offers: Sequence[Offer],
    *,
    state: State,
    left_in_maintenance: bool = False,
) -> str | None:
    """Return what to do next as one or two sentences; None if the node needs nothing.

    :param failure: the failure that the node stands in.
    :param wait: the wait of the node.
    :param overdue: the step under way that takes unusually long.
    :param offers: the verbs that the state offers.
    :param state: the provision state of the node.
    :param left_in_maintenance: a fault that only an operator ends keeps the node in maintenance.
    """
    if wait is not None and wait.what == waiting.RETRY:
        return _ITSELF
    if failure is None:
        rest = _MAINTENANCE if left_in_maintenance else None
        return _overdue(wait, offers) if overdue else rest
    otherwise = _OTHERWISE if failure.run is not None else _OUTSIDE
    code = str((failure.cause or {}).get("code") or failure.code)
    if failure.code == errors.DatabaseRestored.__name__:
        return _RESTORED
    fix = _STEP if _about_steps(failure) else _OF_CAUSE.get(code, otherwise)
    return " ".join(filter(None, (fix, _then(state, offers))))


def _overdue(wait: Wait | None, offers: Sequence[Offer]) -> str:
    """Return what ends an overdue step. A stop of its run does not: it waits for the step."""
    for offer in offers:
        if offer.target == "abort" and offer.refusal is None and offer.after is None:
            return f"{_CONSOLE} {_ABORT}"
    return _CONSOLE if wait is not None else f"{_CONSOLE} {_HANGS}"


def _about_steps(failure: Failure) -> bool:
    """Return whether the run was given a list with faulty steps (`list_faults`)."""
    return bool(((failure.cause or {}).get("facts") or {}).get("paths"))


def _then(state: State, offers: Sequence[Offer]) -> str:
    """Return the verb after the fix; empty if no verb helps."""
    offered = {offer.target: offer for offer in offers}
    for verb in REMEDIES.get(state, ()):
        offer = offered.get(verb)
        if offer is None:
            continue
        if offer.refusal is None:
            return f"Then use {verb}."
        if isinstance(offer.refusal, errors.NodeHeld):
            return "Then lift the hold."
    return ""
