"""Faults of machines: what each does, and the end that its node must have."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import orjson

from benchmarks.site.wire import Reply, Request
from tests.emulators.bmc.refusals import refusal

if TYPE_CHECKING:
    from benchmarks.site.bmc import Machine

SILENT, CUT = 0, -1
"""Statuses of requests that get no answer, and whose connection is cut off."""
_TASK = "/redfish/v1/TaskService/Tasks/endless"


class Expected(NamedTuple):
    """The end of a node: its state, words of its cause, and the erasures of its machine.

    The cause is ``last_error``, and after a bar the reason why its agent was refused.
    """

    state: str
    cause: str
    erasures: int


_FAILED = "clean failed"
ERASES = "erase_devices_metadata"
"""The step by which a machine is erased."""
HEALTHY = Expected("available", "", 1)
FAULTS: Mapping[str, Expected] = {
    "bmc_silent": Expected("enroll", "Cannot reach the BMC .* no complete answer within", 0),
    "bmc_login": Expected("enroll", "refused the credentials", 0),
    "bmc_busy": HEALTHY,
    "bmc_slow": HEALTHY,
    "bmc_broken": Expected("enroll", "(?i)json", 0),
    "bmc_restart": HEALTHY,
    "bmc_sessions": HEALTHY,
    "bmc_task": Expected(_FAILED, "(?i)power", 0),
    "power_stuck": Expected(_FAILED, "(?i)power", 0),
    "taken_over": Expected(_FAILED, "UUID|SerialNumber", 0),
    "agent_silent": Expected(_FAILED, r"Timeout reached while cleaning[^|]*$", 0),
    "agent_token": Expected(_FAILED, r"Timeout reached while cleaning.*\|.*token", 0),
    "step_error": Expected(_FAILED, "disk sda is on fire", 0),
    "step_crash": Expected(_FAILED, f"Timeout reached .* on step deploy.{ERASES}", 0),
    "step_reboot": Expected(_FAILED, f"Timeout reached .* on step deploy.{ERASES}", 0),
    "second_lookup": Expected(_FAILED, "Timeout reached while cleaning", 0),
}
POWERLESS = frozenset({"power_stuck", "bmc_task"})
"""Faults of machines whose power does not change."""


def assign(shares: Mapping[str, float], count: int, seed: int) -> list[str | None]:
    """Return the fault of each machine: so many of each, at random places."""
    if unknown := set(shares) - set(FAULTS):
        raise ValueError(f"faults: {sorted(unknown)} are unknown, only {', '.join(FAULTS)}")
    found: list[str | None] = [
        name for name, share in shares.items() for _ in range(round(share * count))
    ]
    found += [None] * (count - len(found))
    random.Random(seed).shuffle(found)
    return found[:count]


def wrong_end(fault: str | None, state: str, error: str | None, erasures: int) -> str | None:
    """Return the difference of a node's end from the expected one, None if it is equal."""
    wanted = FAULTS[fault] if fault else HEALTHY
    if state != wanted.state:
        return f"{state} instead of {wanted.state}: {error}"
    if not re.search(wanted.cause, error or ""):
        return f"no {wanted.cause!r} in: {error}"
    return None if erasures == wanted.erasures else f"erased {erasures} times"


# -- behaviour of BMCs ----------------------------------------------------------------------------


def seconds(machine: Machine, usual: float) -> float:
    """Return the seconds until an answer."""
    return machine.times.slow if machine.fault == "bmc_slow" else usual


def instead(machine: Machine, request: Request) -> Reply | None:
    """Return the answer of a faulty BMC, None if it answers honestly."""
    act = _BMCS.get(machine.fault or "")
    return None if act is None else act(machine, request)


def _silent(_machine: Machine, _request: Request) -> Reply:
    return Reply(SILENT)


def _broken(_machine: Machine, request: Request) -> Reply | None:
    return Reply(200, b'{"PowerState": "O') if request.method == "GET" else None


def _login(_machine: Machine, request: Request) -> Reply | None:
    if request.method != "POST" and "authorization" not in request.headers:
        return None
    return _refused(401, "ResourceAtUriUnauthorized", "The user name or password was refused.")


def _sessions(machine: Machine, request: Request) -> Reply | None:
    if request.path != machine.tree.sessions:
        return None
    return _refused(503, "SessionLimitExceeded", "There are too many sessions.")


def _busy(machine: Machine, _request: Request) -> Reply | None:
    if machine.phase != "provide" or not _lasts(machine, machine.times.busy):
        return None
    busy = _refused(503, "ServiceTemporarilyUnavailable", "The BMC is busy.")
    return busy._replace(headers={"Retry-After": "5"})


def _restart(machine: Machine, _request: Request) -> Reply | None:
    begun = machine.phase == "provide" and machine.resets
    if not (begun and _lasts(machine, machine.times.restart)):
        return None
    machine.forget_sessions()
    return Reply(CUT)


def _endless(_machine: Machine, request: Request) -> Reply | None:
    return _task(200) if request.path == _TASK else None


_BMCS: Mapping[str, Callable[[Machine, Request], Reply | None]] = {
    "bmc_silent": _silent,
    "bmc_login": _login,
    "bmc_busy": _busy,
    "bmc_broken": _broken,
    "bmc_restart": _restart,
    "bmc_sessions": _sessions,
    "bmc_task": _endless,
}


def identity(machine: Machine) -> dict[str, str]:
    """Return what tells a machine from others; another one takes over a BMC's address."""
    other = machine.fault == "taken_over" and machine.phase == "provide"
    number = machine.number + other * 1_000_000
    serial = f"SITE{number:07d}"
    uuid = f"51730000-0000-4000-8000-{number:012x}"
    return {"UUID": uuid, "SerialNumber": serial, "SKU": serial}


def accepted(machine: Machine) -> Reply:
    """Return the answer to a reset that was accepted."""
    return _task(202) if machine.fault == "bmc_task" else Reply(204)


def _task(status: int) -> Reply:
    task = {"@odata.id": _TASK, "Id": "endless", "Name": "Reset", "TaskState": "Running"}
    return Reply(status, orjson.dumps(task), {"Location": _TASK})


def _lasts(machine: Machine, seconds: float) -> bool:
    """Return whether a fault that begins now, or has begun, still lasts."""
    now = time.monotonic()
    machine.forgets = machine.forgets or now + seconds
    return now < machine.forgets


def _refused(status: int, word: str, text: str) -> Reply:
    return Reply(status, orjson.dumps(refusal(status, word, text).document))
