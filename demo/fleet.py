"""A fleet of fake nodes for the window: something to see on each of its pages."""

from __future__ import annotations

import contextlib
import time

from demo.client import ApiError, Client
from demo.journey import PAUSE, JourneyError
from ironic_lite.core.json_types import Json

_ERASE = "deploy.erase_devices"
_CLASSES = ("gpu", "storage", "compute")
_SLOW = {"fake_async_steps": [_ERASE], "fake_step_seconds": 3600}
_ERASED = {"result": "erased", "level": "purge"}
_RACK = tuple(f"{number:02}" for number in range(1, 13))
_PLAIN = tuple(f"rack1-{slot}" for slot in _RACK)
_ACTIVE = _PLAIN[8:]
_BATCH = tuple(f"rack3-{slot}" for slot in _RACK[4:])
_SPECIAL: dict[str, Json] = {
    "rack2-01": {"fake_fail_steps": {_ERASE: "nvme1n1: I/O error at sector 4711"}},
    "rack2-02": {"fake_fail_verbs": {"inspect": "the ramdisk has not called back"}},
    "rack2-03": {"fake_fail_steps": {_ERASE: "the drive is frozen"}},
    _BATCH[0]: {"fake_fail_steps": {_ERASE: "the firmware refuses to erase"}},
}
OVERDUE = "rack2-04"
"""A node whose step takes an hour, while those of others end at once."""
_LASTING = (OVERDUE, "rack2-05", "rack2-06")
_VERBS = {
    **dict.fromkeys((*_PLAIN, "rack2-01", "rack2-03", *_LASTING), "provide"),
    "rack2-02": "inspect",
}
_HOLDS = {
    "rack2-07": {"kind": "legal", "reason": "case 4711: keep the disks as they are"},
    "rack2-08": {"kind": "hardware", "reason": "fan 2 is loud"},
}
_RETIRED = ("rack3-01", "rack3-02")
NAMES = tuple(f"rack{rack}-{slot}" for rack in (1, 2, 3) for slot in _RACK)


def populate(api: Client, limit: float) -> None:
    """Create the nodes and bring them into their states; steps of some go on for an hour.

    :param limit: seconds for all of it.
    :raises JourneyError: the nodes were not ready in time.
    :raises client.ApiError: a request was refused, such as one for a node that was removed.
    """
    end = time.monotonic() + limit
    for number, name in enumerate(NAMES):
        info = _SPECIAL.get(name) or {"fake_erasures": _disks(number)}
        node = {"driver": "fake-hardware", "resource_class": _CLASSES[number % len(_CLASSES)]}
        api.ask("POST", "/v1/nodes", {"name": name, "driver_info": info, **node})
        _send(api, name, "manage")
    _wait(api, dict.fromkeys(NAMES, "manageable"), end)
    for name, hold in _HOLDS.items():
        api.ask("POST", f"/v1/nodes/{name}/holds", hold)
    for name in _RETIRED:
        _retire(api, name)
    api.ask("PUT", "/v1/nodes/rack2-09/maintenance", {"reason": "a technician changes a disk"})
    for name in _LASTING:  # only now, because their verification would last as long
        slow = {**_SLOW, "fake_async_steps": ["*"]} if name == OVERDUE else _SLOW
        change = [{"op": "add", "path": "/driver_info", "value": slow}]
        api.ask("PATCH", f"/v1/nodes/{name}", change)
    for name, verb in _VERBS.items():
        _send(api, name, verb)
    _wait(api, dict.fromkeys(_PLAIN, "available"), end)
    for name in _ACTIVE:
        _send(api, name, "active")
    batch = {
        "name": "erase rack 3",
        "nodes": list(_BATCH),
        "request": {"target": "provide"},
        "waves": [1, "100%"],
    }
    api.ask("POST", "/v1/batches", batch)
    _wait(api, {**dict.fromkeys(_ACTIVE, "active"), OVERDUE: "clean wait"}, end)


def _disks(machine: int) -> list[Json]:
    """Return the report of an erasure, with serial numbers that no other machine has."""
    return [
        {"name": f"/dev/nvme{at}n1", "serial": f"S64F-{machine:03}{at}", **_ERASED}
        for at in range(2)
    ]


def _send(api: Client, name: str, verb: str) -> None:
    api.ask("PUT", f"/v1/nodes/{name}/states/provision", {"target": verb})


def _retire(api: Client, name: str) -> None:
    """Retire a node that has been in use, so that its data are to be erased."""
    api.ask("PATCH", f"/v1/nodes/{name}", [{"op": "add", "path": "/retired", "value": True}])
    declared = {"data_state": "dirty", "reason": "came back from a customer"}
    api.ask("PUT", f"/v1/nodes/{name}/data_state", declared)


def _wait(api: Client, goals: dict[str, str], end: float) -> None:
    """Return when the nodes are in their states."""
    left = goals
    while left:
        if time.monotonic() > end:
            raise JourneyError(f"the fleet is not ready in time: {', '.join(sorted(left))}")
        time.sleep(PAUSE)
        with contextlib.suppress(ApiError):
            nodes = api.get("/v1/nodes?fields=name,provision_state")["nodes"]
            found = {node["name"]: node["provision_state"] for node in nodes}
            # A visitor of the window may have removed a node.
            left = {name: goal for name, goal in goals.items() if found.get(name, goal) != goal}
