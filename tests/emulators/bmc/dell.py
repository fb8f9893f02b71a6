"""Services of an iDRAC beside the standard: jobs, reset, readiness, boot from virtual media, disks.

They work on the tree of any BMC: the emulated machine has `documents`, a recorded one its own.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from tests.emulators.bmc import shapes
from tests.emulators.bmc.refusals import refusal
from tests.emulators.bmc.server import Reply, Request
from tests.emulators.bmc.shapes import collection, document, link

Json = dict[str, Any]

RUNNING, SCHEDULED = "Running", "Scheduled"
_NUMBERS = itertools.count(500_000_000_001)
_IMPORT = re.compile(
    r'<SystemConfiguration><Component FQDD="(?P<fqdd>[^"<>]+)">'
    r'<Attribute Name="ServerBoot\.1#BootOnce">(?P<once>Enabled|Disabled)</Attribute>'
    r'<Attribute Name="ServerBoot\.1#FirstBootDevice">(?P<device>VCD-DVD|VFDD)</Attribute>'
    r"</Component></SystemConfiguration>"
)


@dataclasses.dataclass
class Idrac:
    """The orders that an iDRAC was given, and its ways.

    ``cleared`` are the JobIDs of DeleteJobQueue, ``resets`` the words of iDRACReset, ``imports``
    what was set for the next boot. ``refusals`` are the message ids that refuse the next imports.
    ``first_boot`` is the virtual drive that it boots from, and whether that is for one boot.
    """

    cleared: list[str] = dataclasses.field(default_factory=list)
    resets: list[str] = dataclasses.field(default_factory=list)
    imports: list[Json] = dataclasses.field(default_factory=list)
    refusals: list[str] = dataclasses.field(default_factory=list)
    converted: list[str] = dataclasses.field(default_factory=list)
    foreign_cleared: list[str] = dataclasses.field(default_factory=list)
    first_boot: tuple[str, bool] | None = None
    lc_status: list[str] = dataclasses.field(default_factory=lambda: ["Ready"])
    rt_status: list[str] = dataclasses.field(default_factory=lambda: ["Ready"])
    """The next answers; the last one stays."""
    stuck: bool = False
    """Jobs stay in the queue after DeleteJobQueue."""
    job_seconds: float = 0.0
    """Time that a job of an import or a conversion takes."""
    job_fails: str | None = None
    """Jobs that start from now on fail with this message."""
    due: list[tuple[float, Callable[[], None]]] = dataclasses.field(default_factory=list)

    def pass_time(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        ready = [act for moment, act in self.due if moment <= now]
        self.due = [one for one in self.due if one[0] > now]
        for act in ready:
            act()

    def boots_from(self) -> str | None:
        """Return the virtual drive that the next boot uses; it is used up if it is for one boot."""
        if self.first_boot is None:
            return None
        device, once = self.first_boot
        if once:
            self.first_boot = None
        return device


class Bmc(Protocol):
    """A BMC with a tree and an iDRAC."""

    tree: dict[str, Json]
    idrac: Idrac

    def restart(self) -> None:
        """Restart the BMC."""


# -- documents ------------------------------------------------------------------------------------


def documents(at: shapes.Places) -> dict[str, Json]:
    """Return the documents by path."""
    own, system = f"{at.manager}/Oem/Dell", f"{at.system}/Oem/Dell"
    found = {
        path: document(path, f"{path.rpartition('/')[2]}.v1_2_0", name, Actions=actions)
        for path, name, actions in (
            (
                f"{own}/DellJobService",
                "Job Service",
                _actions(f"{own}/DellJobService", "DellJobService.DeleteJobQueue"),
            ),
            (
                f"{own}/DelliDRACCardService",
                "Card Service",
                _actions(
                    f"{own}/DelliDRACCardService",
                    "DelliDRACCardService.iDRACReset",
                    **{"Force@Redfish.AllowableValues": ["Force", "Graceful"]},
                ),
            ),
            (
                f"{own}/DellLCService",
                "LC Service",
                _actions(f"{own}/DellLCService", "DellLCService.GetRemoteServicesAPIStatus"),
            ),
            (
                f"{system}/DellRaidService",
                "RAID Service",
                _actions(f"{system}/DellRaidService", "DellRaidService.ConvertToRAID")
                | _actions(f"{system}/DellRaidService", "DellRaidService.ClearForeignConfig"),
            ),
        )
    }
    switches = f"{at.system}/NetworkPorts/Oem/Dell/DellSwitchConnections"
    return found | {
        f"{own}/Jobs": collection(f"{own}/Jobs", "DellJob", []),
        switches: {
            **collection(switches, "DellSwitchConnection", []),
            "Members": [
                _connection(switches, "NIC1-1", "b0:4f:13:31:dc:40", "swp20"),
                _connection(switches, "NIC1-2", "No Link", "No Link"),
            ],
        },
    }


def _actions(path: str, name: str, **rest: Any) -> Json:
    return {f"#{name}": {"target": f"{path}/Actions/{name}", **rest}}


def _connection(path: str, fqdd: str, switch: str, port: str) -> Json:
    facts = {"FQDD": fqdd, "SwitchConnectionID": switch, "SwitchPortConnectionID": port}
    return document(f"{path}/{fqdd}", "DellSwitchConnection.v1_1_0", fqdd, **facts)


def extend(tree: dict[str, Json], at: shapes.Places) -> None:
    """Give the manager and the system of a Dell machine their services."""
    tree.update(documents(at))
    manager, own = tree[at.manager], f"{at.manager}/Oem/Dell"
    names = ("DellJobService", "DelliDRACCardService", "DellLCService", "Jobs")
    switches = f"{at.system}/NetworkPorts/Oem/Dell/DellSwitchConnections"
    services = {name: link(f"{own}/{name}") for name in names}
    services["DellSwitchConnectionCollection"] = link(switches)
    manager["Links"]["Oem"] = {"Dell": services}
    manager.setdefault("LastResetTime", "2015-03-12T04:14:33+06:00")
    target = f"{at.manager}/Actions/Oem/EID_674_Manager.ImportSystemConfiguration"
    word = "#OemManager.v1_3_0.OemManager#OemManager.ImportSystemConfiguration"
    manager["Actions"]["Oem"] = {word: {"target": target}}
    service = link(f"{at.system}/Oem/Dell/DellRaidService")
    tree[at.system]["Links"]["Oem"] = {"Dell": {"DellRaidService": service}}


def extend_recorded(tree: dict[str, Json], system: str, manager: str) -> None:
    """Give a recorded machine of Dell its services, which recordings leave out."""
    if not any(path.endswith("/Oem/Dell/Jobs") for path in tree):
        make = dataclasses.replace(
            shapes.MAKES["dell"],
            system=system.rpartition("/")[2],
            manager=manager.rpartition("/")[2],
        )
        extend(tree, shapes.Places(make))


# -- actions --------------------------------------------------------------------------------------


def jobs_of(tree: dict[str, Json]) -> str:
    """Return the path of the job queue."""
    return next(path for path in tree if path.endswith("/Oem/Dell/Jobs"))


def put_job(bmc: Bmc, state: str = SCHEDULED) -> str:
    """Let a job be in the queue; return its Id."""
    queue, ident = jobs_of(bmc.tree), f"JID_{next(_NUMBERS)}"
    path = f"{queue}/{ident}"
    bmc.tree[path] = document(path, "DellJob.v1_2_0", "Configure: BIOS.Setup.1-1", JobState=state)
    bmc.tree[queue]["Members"].append(link(path))
    return ident


def _delete_jobs(bmc: Bmc, body: Json) -> Reply:
    word = body.get("JobID")
    bmc.idrac.cleared.append(str(word))
    queue = bmc.tree[jobs_of(bmc.tree)]
    for entry in list(queue["Members"]):
        state = bmc.tree.get(entry["@odata.id"], {}).get("JobState")
        if not bmc.idrac.stuck and (state != RUNNING or word == "JID_CLEARALL_FORCE"):
            queue["Members"].remove(entry)
            bmc.tree.pop(entry["@odata.id"], None)
    return Reply(200, {})


def _reset(bmc: Bmc, body: Json) -> Reply:
    bmc.idrac.resets.append(str(body.get("Force")))
    reset_seen(bmc.tree)
    bmc.restart()
    return Reply(204)


def reset_seen(tree: dict[str, Json]) -> None:
    """Let the manager show a new time of its last reset."""
    for path, one in tree.items():
        if "/Managers/" in path and "LastResetTime" in one:
            now = datetime.datetime.now(datetime.UTC)
            one["LastResetTime"] = now.isoformat(timespec="microseconds")


def _status(bmc: Bmc, body: Json) -> Reply:
    found = {}
    for name, words in (("LCStatus", bmc.idrac.lc_status), ("RTStatus", bmc.idrac.rt_status)):
        found[name] = words.pop(0) if len(words) > 1 else words[0]
    return Reply(200, {**found, "Status": "Ready"})


def _import(bmc: Bmc, body: Json) -> Reply:
    idrac = bmc.idrac
    if idrac.refusals:
        return refusal(400, idrac.refusals.pop(0), "The iDRAC does not take it now.")
    found = _IMPORT.fullmatch(str(body.get("ImportBuffer")))
    manager = next(one for one in bmc.tree.values() if "ManagerType" in one)
    if found is None or body["ShareParameters"] != {"Target": ["ALL"]}:
        return refusal(400, "SYS051", "The import buffer is not valid.")
    if found["fqdd"] != manager["Id"]:
        return refusal(400, "SYS051", f"There is no component {found['fqdd']}.")
    idrac.imports.append(found.groupdict())

    def effect() -> None:
        idrac.first_boot = (found["device"], found["once"] == "Enabled")

    return _job(bmc, "Import Configuration", effect)


def _convert(bmc: Bmc, body: Json) -> Reply:
    names = list(body["PDArray"])

    def effect() -> None:
        bmc.idrac.converted += names
        for path, one in list(bmc.tree.items()):
            if "/Drives/" in path and one.get("Id") in names:
                for volume in one["Links"]["Volumes"]:
                    place = volume["@odata.id"]
                    bmc.tree.pop(place, None)
                    page = bmc.tree[place.rpartition("/")[0]]
                    page["Members"] = [each for each in page["Members"] if each != volume]
                one["Links"]["Volumes"] = []

    return _job(bmc, "Convert to RAID", effect)


def _clear_foreign(bmc: Bmc, body: Json) -> Reply:
    where = f"/Storage/{body.get('TargetFQDD')}/Drives/"
    raid = [
        one["Oem"]["Dell"]["DellPhysicalDisk"]
        for path, one in bmc.tree.items()
        if where in path and "DellPhysicalDisk" in one.get("Oem", {}).get("Dell", {})
    ]
    foreign = [one for one in raid if one.get("RaidStatus") == "Foreign"]
    if not foreign:
        return refusal(400, "STOR018", "No foreign drives detected.")

    def effect() -> None:
        bmc.idrac.foreign_cleared.append(str(body["TargetFQDD"]))
        for one in foreign:
            one["RaidStatus"] = "Ready"

    return _job(bmc, "Clear foreign configuration", effect)


def _job(bmc: Bmc, name: str, effect: Callable[[], None]) -> Reply:
    idrac, ident = bmc.idrac, f"JID_{next(_NUMBERS)}"
    path = f"{shapes.ROOT}/TaskService/Tasks/{ident}"
    task = document(path, "Task.v1_5_1", name, TaskState="Running", TaskStatus="OK", Messages=[])
    bmc.tree[path] = task
    page = next(one for at, one in bmc.tree.items() if at == f"{shapes.ROOT}/TaskService/Tasks")
    page["Members"].append(link(path))
    fails = idrac.job_fails

    def end() -> None:
        if fails is None:
            effect()
        said = [{"Message": fails, "MessageId": "SYS055"}] if fails else []
        state = "Exception" if fails else "Completed"
        task.update(TaskState=state, TaskStatus="Critical" if fails else "OK", Messages=said)

    idrac.due.append((time.monotonic() + idrac.job_seconds, end))
    return Reply(202, None, {"Location": path})


ACTIONS: dict[str, Callable[[Bmc, Json], Reply]] = {
    "#DellJobService.DeleteJobQueue": _delete_jobs,
    "#DelliDRACCardService.iDRACReset": _reset,
    "#DellLCService.GetRemoteServicesAPIStatus": _status,
    "#OemManager.ImportSystemConfiguration": _import,
    "#DellRaidService.ConvertToRAID": _convert,
    "#DellRaidService.ClearForeignConfig": _clear_foreign,
}


def _act(name: str) -> Callable[[Any, Request, str], Reply]:
    return lambda machine, request, path: ACTIONS[name](machine, request.body)


ACTS = tuple(
    ("POST", r".*/Actions/(Oem/EID_674_)?" + end.replace(".", r"\."), _act(name))
    for name in ACTIONS
    for end in [name.lstrip("#").replace("OemManager", "Manager")]
)
