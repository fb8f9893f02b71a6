"""The hardware type ``idrac``: Dell machines, as Redfish with the extensions of their iDRAC.

An interface here differs from the Redfish one only where an iDRAC needs it. The interfaces
``idrac-redfish`` of BIOS, power and vendor are the Redfish classes themselves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import ClassVar
from xml.sax import saxutils

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json, JsonView, restored
from ironic_lite.domain import steps
from ironic_lite.drivers import base, bmc_bases
from ironic_lite.drivers.boot import modes
from ironic_lite.drivers.redfish import (
    boot,
    disk_selection,
    hardware,
    inspect,
    management,
    raid,
    storage,
    virtual_media,
)
from ironic_lite.drivers.redfish.bmc import connection, faults, jobs, resources
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

_NAME = "idrac-redfish"
_REDFISH = hardware.RedfishHardware.supported


class IdracHardware(hardware.RedfishHardware):
    """The interfaces that work with an iDRAC, in order of preference; others are those of Redfish.

    ``redfish`` of inspection and ``redfish-virtual-media`` are beyond Ironic, because clients name
    them for Dell machines.
    """

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_REDFISH,
        "bios": (_NAME, *_REDFISH["bios"]),
        "boot": (
            "ipxe",
            "pxe",
            "http-ipxe",
            "http",
            "idrac-redfish-virtual-media",
            "redfish-https",
            "redfish-virtual-media",
            "fake",
        ),
        "inspect": (_NAME, "agent", "no-inspect", "redfish", "fake"),
        "management": (_NAME,),
        "power": (_NAME, *_REDFISH["power"]),
        "raid": (_NAME, "no-raid", "agent", "fake"),
        "vendor": (_NAME, *_REDFISH["vendor"]),
    }


# Services of an iDRAC beside those of the standard.


def _service_action(
    task: base.Task, service: str, action: str, *, of_system: bool = False
) -> Json | None:
    """Return an action of a service of the iDRAC, None if the iDRAC does not offer it.

    :param of_system: the system has the link to the service, not its manager.
    """
    system = resources.system(task)
    for owner in [system] if of_system else resources.managers(task, system):
        path = resources.link(owner, "Links", "Oem", "Dell", service)
        document = resources.read(task, path) if path else None
        found = resources.value(document, "Actions", action)
        if resources.text(found or {}, "target"):
            offered: Json = found
            return offered
    return None


def _unfinished_jobs(task: base.Task) -> list[str] | None:
    """Return the unfinished jobs of the iDRAC with their states; None if it lists no jobs."""
    for manager in resources.managers(task, resources.system(task)):
        path = resources.link(manager, "Links", "Oem", "Dell", "Jobs")
        if path:
            found = (
                (resources.text(job, "Id"), resources.text(job, "JobState"))
                for job in resources.members(task, path)
            )
            return [
                f"{ident!s:.80} ({state!s:.80})" for ident, state in found if state not in _FINISHED
            ]
    return None


_FINISHED = frozenset({"Completed", "CompletedWithErrors", "Failed", "RebootFailed"})
"""States of a job that has ended; every other state, also an unknown one, is unfinished."""
_MOST_JOBS = 5
"""Jobs that an error names."""


def _last_reset(task: base.Task) -> str | None:
    """Return when the iDRAC was last reset, in its own words; None if it does not say."""
    told = resources.managers(task, resources.system(task))
    return next(filter(None, (resources.text(one, "LastResetTime") for one in told)), None)


# Steps that bring an iDRAC into a known state: it is reset, and its job queue is emptied.
#
# Cleaning polls them; verification, which has no wait state, pauses instead.

RESET, CLEAR = "reset", "clear"
_PHASES: Mapping[str, tuple[str, ...]] = {
    "clear_job_queue": (CLEAR,),
    "reset_idrac": (RESET,),
    "known_good_state": (RESET, CLEAR),
}
RECOVERY_NOTE = "idrac_recovery"
"""Key of the `Recovery` of a running step."""
RECOVERY_PAUSE = bmc_bases.RESET_PAUSE
CLEAR_SECONDS = 300.0
"""Time limit for an empty queue: an iDRAC may be silent for two minutes after the request."""
CLEAR_LOOKS = 2
"""Answers with an empty queue, one after the other, after which the queue counts as empty."""
_LIMITS: Mapping[str, float] = {RESET: bmc_bases.RESET_SECONDS, CLEAR: CLEAR_SECONDS}

FORCE_ARGS: Mapping[str, base.Arg] = {
    "force": base.Arg(
        "Whether to delete also jobs that run, and to restart the Lifecycle Controller: true or "
        "false. Default: false."
    )
}


@dataclasses.dataclass(slots=True)
class Recovery:
    """The state of such a step, which a new conductor continues.

    ``step`` is the identifier of the step in its run. ``phases`` are left, the first is under way
    once it has a deadline: ``until``, in seconds since the epoch. ``looks`` counts good answers.
    ``sent``: the reset was sent for certain. ``reset_before``: the last reset before it.
    """

    step: str
    phases: list[str]
    force: bool = False
    until: float = 0.0
    looks: int = 0
    sent: bool = False
    reset_before: str | None = None


class IdracManagement(management.RedfishManagement):
    """The management interface ``idrac-redfish``."""

    work_notes: ClassVar[Sequence[str]] = (bmc_bases.RESET_NOTE, RECOVERY_NOTE)

    @base.verify_step(priority=0, destroys=(), restarts=0)
    @base.clean_step(
        priority=0, requires_ramdisk=False, argsinfo=FORCE_ARGS, destroys=(), restarts=0
    )
    def clear_job_queue(self, task: base.Task, *, force: bool = False) -> base.Outcome:
        """Delete all jobs of the iDRAC, and wait until it shows none and answers.

        :raises errors.HardwareError: the iDRAC refused, or has no such service.
        """
        force = steps.checked_flag("force", force)
        return self._go_on(task, _recovery(task, "clear_job_queue", force=force))

    @base.verify_step(priority=0, destroys=(), restarts=0)
    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=0)
    def reset_idrac(self, task: base.Task) -> base.Outcome:
        """Restart the iDRAC, and wait until it is ready; the machine itself keeps running.

        :raises errors.HardwareError: the iDRAC refused.
        """
        return self._go_on(task, _recovery(task, "reset_idrac"))

    @base.verify_step(priority=0, destroys=(), restarts=0)
    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=0)
    def known_good_state(self, task: base.Task) -> base.Outcome:
        """Restart the iDRAC, then delete all its jobs.

        :raises errors.HardwareError: the iDRAC refused, or has no such service.
        """
        return self._go_on(task, _recovery(task, "known_good_state"))

    def execute_verify_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Run a step to its end; a failure is logged, and the verification goes on."""
        if step["step"] not in _PHASES:
            return super().execute_verify_step(task, step)
        work = _recovery(task, step["step"])
        try:
            while not self._advance(task, work, verifying=True):
                task.pause(RECOVERY_PAUSE)
        except (errors.LockLost, errors.Stopping):
            raise
        except errors.Error as why:
            text = "Node %s: %s failed, and the verification goes on: %s"
            LOG.warning(text, task.node.uuid, step["step"], why)
            task.keep(RECOVERY_NOTE, None)
        return base.DONE

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Do the next part of a step.

        :raises errors.HardwareError: the iDRAC refused, or the time limit was exceeded.
        """
        if step["step"] not in _PHASES:
            return super().poll_step(task, kind, step)
        return self._go_on(task, _recovery(task, step["step"]))

    def _go_on(self, task: base.Task, work: Recovery) -> base.Outcome:
        with _forgetting(task, RECOVERY_NOTE):
            if self._advance(task, work):
                return base.DONE
        task.wake_after(RECOVERY_PAUSE)
        return base.WAIT

    def _advance(self, task: base.Task, work: Recovery, *, verifying: bool = False) -> bool:
        """Do what is possible now; return whether the step is done.

        :param verifying: an empty job queue is left alone, and there is no timer.
        """
        while work.phases:
            phase = work.phases[0]
            if work.until:
                if not self._is_over(task, work, verifying=verifying):
                    break
            elif self._send(task, work, verifying=verifying):
                break
            work.phases, work.until, work.looks = work.phases[1:], 0.0, 0
            LOG.info("Node %s: %s of the iDRAC is done", task.node.uuid, phase)
        task.keep(RECOVERY_NOTE, dataclasses.asdict(work) if work.phases else None)
        return not work.phases

    def _send(self, task: base.Task, work: Recovery, *, verifying: bool) -> bool:
        """Send the request of a phase; return False if there is nothing to do."""
        if work.phases[0] == CLEAR:
            if verifying and _unfinished_jobs(task) == []:
                return False
            _clear_jobs(task, force=work.force)
        else:
            # Saved before and after: a new conductor must not reset the iDRAC twice.
            work.reset_before, work.sent = _last_reset(task), False
            _save(task, work, verifying=verifying)
            self._reset(task)
            work.sent = True
        _save(task, work, verifying=verifying)
        return True

    def _reset(self, task: base.Task) -> None:
        action = _service_action(task, "DelliDRACCardService", "#DelliDRACCardService.iDRACReset")
        if action is None:
            self.restart_bmc(task)
        else:
            _give_order(task, action, {"Force": "Graceful"})

    def _is_over(self, task: base.Task, work: Recovery, *, verifying: bool) -> bool:
        """Return whether the phase under way has ended.

        :raises errors.StepFailed: it has not ended in time.
        """
        phase = work.phases[0]
        fault: errors.Error | None = None
        try:
            left = self._missing_to_end(task, work)
        except (errors.HardwareError, errors.InvalidParameter) as why:
            # A starting iDRAC may not list its systems yet, or not the one named in driver_info.
            work.looks = bmc_bases.RESET_LOOKS if phase == RESET else 0
            left, fault = f"no usable answer of the iDRAC: {why}".rstrip("."), why
        if left is None and phase == RESET and _is_unsent(task, work):
            self._send(task, work, verifying=verifying)
            return False
        if left and clock.over(work.until, _LIMITS[phase]):
            reason = f"{left}, {_LIMITS[phase]:g} s after the request to {phase} it"
            raise errors.StepFailed(step=work.step.rpartition("/")[2], reason=reason) from fault
        return left is None

    def _missing_to_end(self, task: base.Task, work: Recovery) -> str | None:
        """Return a sentence about what is missing to the end of a phase, None if it has ended.

        It is empty if only more looks are missing.
        """
        if work.phases[0] == RESET:
            self.ask_bmc(task, RECOVERY_PAUSE)
            work.looks += 1
            if work.looks < bmc_bases.RESET_LOOKS:
                return ""
            word = _readiness(task)
            return None if word in {None, "Ready"} else f"the LCStatus of the iDRAC is {word:.80}"
        jobs = _unfinished_jobs(task)
        if jobs:
            work.looks = 0
            more = ", ..." if len(jobs) > _MOST_JOBS else ""
            return f"the job queue still holds {', '.join(jobs[:_MOST_JOBS])}{more}"
        work.looks += 1
        return None if work.looks >= CLEAR_LOOKS else ""


def _recovery(task: base.Task, step: str, *, force: bool = False) -> Recovery:
    """Return the state of a running step, of a new one if it has not begun.

    A step that runs on a child node is in no run of that node, and is always a new one.
    """
    ident = f"{task.step_id}/{step}"
    kept: Json = task.recall(RECOVERY_NOTE) or {}
    if kept.get("step") == ident and task.node.run_uuid is not None:
        return restored(Recovery, kept)
    return Recovery(ident, list(_PHASES[step]), force)


def _is_unsent(task: base.Task, work: Recovery) -> bool:
    """Return whether a lost conductor noted a reset and did not send it, as far as known."""
    told = work.reset_before
    return not work.sent and told is not None and told == _last_reset(task)


def _save(task: base.Task, work: Recovery, *, verifying: bool) -> None:
    """Save that a phase has begun; outside of verification with the timer of the next look."""
    work.until = clock.stamp() + _LIMITS[work.phases[0]]
    task.keep(RECOVERY_NOTE, dataclasses.asdict(work))
    if not verifying:
        task.wake_after(RECOVERY_PAUSE)
    task.save()


@contextlib.contextmanager
def _forgetting(task: base.Task, note: str) -> Iterator[None]:
    """Forget the note of a step that fails; a step that only stops here is continued by it."""
    try:
        yield
    except (errors.LockLost, errors.Stopping):
        raise
    except errors.Error:
        task.keep(note, None)
        raise


def _give_order(task: base.Task, action: Json, body: Json) -> None:
    """Give an order after which an iDRAC goes silent, perhaps before it answers."""

    def give(link: connection.Link) -> None:
        try:
            with link.wire.unkept():
                link.wire.post(action["target"], data=body)
        except (sushy.exceptions.ConnectionError, OSError) as error:
            if not faults.is_answer_lost(error):
                raise
        link.forget()

    connection.call(task, give, read=False)


def _clear_jobs(task: base.Task, *, force: bool) -> None:
    action = _service_action(task, "DellJobService", "#DellJobService.DeleteJobQueue")
    if action is None:
        raise errors.HardwareError(
            reason="this BMC offers no Oem/Dell/DellJobService; update the firmware of the iDRAC"
        )
    word = "JID_CLEARALL_FORCE" if force else "JID_CLEARALL"
    offered = action.get("JobID@Redfish.AllowableValues")
    if force and isinstance(offered, list) and word not in offered:
        known = ", ".join(str(one)[:80] for one in offered[:_MOST_JOBS])
        reason = f"this iDRAC does not offer {word}, only {known}"
        raise errors.InvalidParameter(path="force", reason=reason)
    _give_order(task, action, {"JobID": word})


def _readiness(task: base.Task, status: str = "LCStatus") -> str | None:
    """Return a status of the iDRAC's services such as ``Ready``; None if it does not show any."""
    name = "#DellLCService.GetRemoteServicesAPIStatus"
    action = _service_action(task, "DellLCService", name)
    if action is None:
        return None
    target = action["target"]

    def ask(link: connection.Link) -> JsonView:
        answer = link.wire.post(target, data={})
        return answer.mapping() if answer.status_code == HTTPStatus.OK else {status: "unknown"}

    return resources.text(dict(connection.call(task, ask)), status)


# Inspection: what only an iDRAC reports, or reports at another place.

_BOOT_CARDS = tuple((f"PxeDev{n}EnDis", f"PxeDev{n}Interface") for n in range(1, 5))
"""BIOS settings of the cards that boot over the network in UEFI mode: on or off, and their name."""
_NO_LINK = "No Link"


def parse_boot_cards(bios: Json) -> set[str]:
    """Return the names of the cards that may boot over the network, from the BIOS document."""
    return {
        name
        for switch, card in _BOOT_CARDS
        if resources.text(bios, "Attributes", switch) == "Enabled"
        and (name := resources.text(bios, "Attributes", card))
    }


def parse_switches(connections: Iterable[Json]) -> Json:
    """Return the switches that cards see, by FQDD, from DellSwitchConnection documents."""
    found: Json = {}
    for one in connections:
        card = resources.text(one, "FQDD")
        switch = resources.text(one, "SwitchConnectionID")
        port = resources.text(one, "SwitchPortConnectionID")
        if card and switch and port and _NO_LINK not in {switch, port}:
            found[card] = {"switch_chassis_id": switch, "switch_port_id": port}
    return found


class IdracSurvey(inspect.Survey):
    """The parts of a Dell machine."""

    def take(self) -> tuple[Json, Json, int | None]:
        """Return inventory, plug-in data, and the size of the disk for an image.

        The serial number is the service tag, by which the machine is known; an iDRAC shows the
        number of the board.
        """
        inventory, plugin_data, local_gb = super().take()
        tag = resources.text(self.system, "SKU")
        if tag is not None:
            inventory["system_vendor"]["serial_number"] = tag
        if inventory["boot"]["current_boot_mode"] == "uefi":
            self._mark_boot_cards(inventory)
        return inventory, plugin_data, local_gb

    def _mark_boot_cards(self, inventory: Json) -> None:
        """Mark the cards that boot over the network; if no card is known to, any may."""
        path = resources.link(self.system, "Bios")
        read = self._read_documents("Bios", lambda spare: _one_document(self.task, path))
        names = parse_boot_cards(read[0]) if read else set()
        cards = inventory["interfaces"]
        booting = [card for card in cards if card["name"] in names]
        for card in cards if booting else ():
            card["pxe_enabled"] = card in booting
        if len(booting) == 1:
            inventory["boot"]["pxe_interface"] = booting[0]["mac_address"]

    def _lldp_neighbours(self) -> Json:
        """Return the switches from the iDRAC's own list, else from the ports of the cards."""
        path = f"{self.system.get('@odata.id')}/NetworkPorts/Oem/Dell/DellSwitchConnections"
        for manager in self._linked_documents("ManagedBy", self.system, "Links", "ManagedBy"):
            own = "DellSwitchConnectionCollection"
            path = resources.link(manager, "Links", "Oem", "Dell", own) or path
        find = functools.partial(resources.members, self.task, path)
        return parse_switches(self._read_documents("DellSwitchConnections", find)) or (
            super()._lldp_neighbours()
        )


def _one_document(task: base.Task, path: str | None) -> list[Json]:
    found = resources.read(task, path) if path else None
    return [] if found is None else [found]


class IdracInspect(inspect.RedfishInspect):
    """The inspect interface ``idrac-redfish``."""

    survey: ClassVar[type[inspect.Survey]] = IdracSurvey


# RAID: what an iDRAC needs before and after changes of volumes.
#
# Its state is one JSON document on the node beside that of the changes, so that another conductor
# can continue.

RAID_NOTE = "idrac_raid"
"""Key of the `RaidState` of a running step."""
READY, CONVERT, CHANGE, CLEAR_FOREIGN = "ready", "convert", "change", "clear_foreign"
READY_LOOKS, READY_PAUSE = 30, 10.0
"""Looks whether an iDRAC can change volumes at once, and seconds between them; then it is tried."""
JOB_PAUSE = 5.0
"""Seconds between two looks at a job."""
_NOTHING_FOREIGN = "STOR018"
"""Message id of an iDRAC that has no foreign configuration."""
_RAID_ACTIONS: Mapping[str, str] = {
    CONVERT: "#DellRaidService.ConvertToRAID",
    CLEAR_FOREIGN: "#DellRaidService.ClearForeignConfig",
}


@dataclasses.dataclass(slots=True)
class DiskJob:
    """A job of the RAID service: its arguments, its name in sentences, and its addresses.

    ``by`` is the claim of the process that sends it; ``until`` is its deadline in seconds since
    the epoch, once it was tried.
    """

    body: Json
    name: str
    by: str | None = None
    until: float = 0.0
    uris: list[str] = dataclasses.field(default_factory=list)
    sent: bool = False


@dataclasses.dataclass(slots=True)
class RaidState:
    """The state of a step: its stage, and the jobs of the stage.

    ``wanted`` are the logical disks, each with its path, whose disks are chosen again after a
    conversion. ``foreign`` are the controllers whose foreign configurations are cleared at the end.
    """

    stage: str = READY
    looks: int = 0
    jobs: list[DiskJob] = dataclasses.field(default_factory=list)
    wanted: list[tuple[str, Json]] | None = None
    foreign: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, saved: JsonView) -> RaidState:
        """Return the saved state."""
        return restored(cls, {**saved, "jobs": [restored(DiskJob, one) for one in saved["jobs"]]})


class IdracRAID(raid.RedfishRAID):
    """The raid interface ``idrac-redfish``."""

    work_notes: ClassVar[Sequence[str]] = (raid.NOTE, RAID_NOTE)

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Do the next part of the plan.

        :raises errors.HardwareError: the iDRAC refused, a job failed, or a time limit was exceeded.
        """
        kept = task.recall(RAID_NOTE)
        if kept is None:
            return super().poll_step(task, kind, step)
        state = RaidState.of(kept)
        with _forgetting(task, RAID_NOTE):
            if state.stage != CHANGE:
                return self._advance(task, state)
            if super().poll_step(task, kind, step) is base.WAIT:
                return base.WAIT
            return self._enter(task, state, CLEAR_FOREIGN)

    # -- the plan -------------------------------------------------------------------------

    def _build_volumes(
        self, task: base.Task, wanted: Sequence[tuple[str, Json]], delete_existing: object
    ) -> base.Outcome:
        """Plan the volumes.

        With ``delete_existing`` disks in non-RAID mode are converted before, and chosen again then;
        otherwise they cannot be chosen, as they may hold a system.
        """
        emptied = steps.checked_flag("delete_existing", delete_existing)
        there = connection.call(task, storage.read_controllers)
        others = {path for one in there for path in _non_raid_disks(one)}
        offered = [one.offered(emptied=emptied) for one in there]
        if not emptied:
            offered = [_without(one, others) for one in offered]
        choices = disk_selection.choose_disks(wanted, offered)
        _refuse_hba_mode(task, [path for path, _ in wanted], choices)
        names = [disk.name for one in choices for disk in one.disks if disk.path in others]
        if not names:
            return super()._build_volumes(task, wanted, emptied)
        job = DiskJob({"PDArray": names}, f"convert the disks {', '.join(names)} to RAID mode")
        return self._enter(task, RaidState(jobs=[job], wanted=list(wanted)), READY)

    def _start_changes(
        self,
        task: base.Task,
        there: Sequence[storage.RaidController],
        work: list[raid.VolumeOrder],
        disks: list[Json],
    ) -> base.Outcome:
        """Save the plan, to be begun when the iDRAC is ready."""
        deletes = not disks or any(one.do == raid.DELETE for one in work)
        foreign = [one.name for one in there if deletes and one.levels and not _is_boss(one)]
        outcome = super()._start_changes(task, there, work, disks)
        if outcome is base.DONE and not foreign:
            return outcome
        first = RaidState(foreign=foreign)
        return self._enter(task, first, READY if outcome is base.WAIT else CLEAR_FOREIGN)

    def _enter(self, task: base.Task, state: RaidState, stage: str) -> base.Outcome:
        """Begin a stage with the next poll, so that its claims are saved before its requests."""
        state.stage, state.looks = stage, 0
        if stage == CLEAR_FOREIGN:
            state.jobs = [
                DiskJob({"TargetFQDD": name}, f"clear the foreign configuration of {name}")
                for name in state.foreign
            ]
        for job in state.jobs:
            job.by = jobs.CLAIMS.make()
        return _wait(task, state, 0.0)

    def _advance(self, task: base.Task, state: RaidState) -> base.Outcome:
        """Do what is possible now in a stage other than the changes themselves."""
        if state.stage == READY:
            if not _is_ready(task, state):
                return _wait(task, state, READY_PAUSE)
            return self._enter(task, state, CHANGE if state.wanted is None else CONVERT)
        if not _run_jobs(task, state):
            return _wait(task, state, JOB_PAUSE)
        task.keep(RAID_NOTE, None)
        if state.wanted is None:
            return base.DONE
        return super()._build_volumes(task, [(path, one) for path, one in state.wanted], True)


def _wait(task: base.Task, state: RaidState, seconds: float) -> base.Outcome:
    task.keep(RAID_NOTE, dataclasses.asdict(state))
    task.wake_after(seconds)
    return base.WAIT


def _non_raid_disks(controller: storage.RaidController) -> set[str]:
    """Return the paths of the disks that are in non-RAID mode, so that no volume can use them."""
    raw = {path for one in controller.volumes if one.raw for path in one.drives}
    return {
        path
        for drive in controller.drives
        if (path := str(drive["@odata.id"])) in raw
        or resources.text(drive, "Oem", "Dell", "DellPhysicalDisk", "RaidStatus") == "NonRAID"
    }


def _without(
    controller: disk_selection.ControllerDisks, others: set[str]
) -> disk_selection.ControllerDisks:
    """Return a controller whose disks in non-RAID mode cannot be chosen."""
    trouble = "it is in non-RAID mode (delete_existing converts it)"
    disks = tuple(
        dataclasses.replace(disk, trouble=disk.trouble or trouble) if disk.path in others else disk
        for disk in controller.disks
    )
    return dataclasses.replace(controller, disks=disks)


def _is_boss(controller: storage.RaidController) -> bool:
    """Return whether a controller is one for boot disks, which cannot convert or clear them."""
    return "BOSS" in f"{controller.name} {controller.label}".upper()


def _refuse_hba_mode(
    task: base.Task, paths: Sequence[str], choices: Sequence[disk_selection.DiskChoice]
) -> None:
    """Refuse volumes on a controller that only passes its disks through.

    :param paths: of the logical disks in the request, one for each choice.

    :raises errors.InvalidParameter: naming the path of the first logical disk for it.
    """
    own = ("Oem", "Dell", "DellStorageController", "ControllerMode")
    passing = {
        str(subsystem.get("Id"))
        for subsystem in resources.members(task, resources.link(resources.system(task), "Storage"))
        for card in resources.members(task, resources.link(subsystem, "Controllers"))
        if resources.text(card, *own) == "HBA"
    }
    for path, choice in zip(paths, choices, strict=True):
        if choice.controller.name in passing:
            do = "set its ControllerMode to RAID, and restart the machine"
            reason = f"{choice.controller.name} is in HBA mode: {do}"
            raise errors.InvalidParameter(path=f"{path}/controller", reason=reason)


def _is_ready(task: base.Task, state: RaidState) -> bool:
    """Return whether an iDRAC can change volumes at once, or is tried anyway.

    It can only while its machine is on.
    """
    state.looks += 1
    try:
        word = _readiness(task, "RTStatus")
        if word in {None, "Ready"}:
            return True
        if state.looks == 1 and task.driver.power.get_power_state(task) == base.POWER_OFF:
            raid.restart_machine(task)
    except errors.HardwareError as why:
        LOG.info("Node %s: %s", task.node.uuid, why)
    return state.looks >= READY_LOOKS


def _run_jobs(task: base.Task, state: RaidState) -> bool:
    """Send and follow the jobs of a stage one by one; return whether all have ended.

    :raises errors.HardwareError: a job failed, or did not end in time.
    """
    limit = float(config.CONF.drac.raid_job_timeout)
    while state.jobs:
        job = state.jobs[0]
        job.until = job.until or clock.stamp() + limit
        fault: errors.Error | None = None
        try:
            word = _look_at_job(task, state.stage, job)
        except (errors.BmcUnreachable, errors.BmcAccessDenied) as silence:
            word, fault = str(silence), silence
        if word not in jobs.ENDED:
            if clock.over(job.until, limit):
                reason = (
                    f"the iDRAC did not {job.name} within {limit:g} s ({word}). Check its job "
                    "queue; if it is only slow, raise [drac]raid_job_timeout"
                )
                raise errors.StepFailed(step="raid", reason=reason) from fault
            return False
        state.jobs = state.jobs[1:]
    return True


def _look_at_job(task: base.Task, stage: str, job: DiskJob) -> str:
    """Send a job if it was not sent; return its state."""
    if not job.sent:
        if not _send_job(task, stage, job):
            return jobs.DONE
        job.sent = True
    return jobs.check(task, job.uris, job.name) if job.uris else jobs.DONE


def _send_job(task: base.Task, stage: str, job: DiskJob) -> bool:
    """Send a job, unless it runs already; return False if there is nothing to do.

    :raises errors.StepFailed: the iDRAC refused.
    """
    action = _service_action(task, "DellRaidService", _RAID_ACTIONS[stage], of_system=True)
    if action is None:
        if stage == CLEAR_FOREIGN:
            return False
        reason = "this BMC offers no Oem/Dell/DellRaidService; update the firmware of the iDRAC"
        raise errors.StepFailed(step="raid", reason=reason)
    target = action["target"]
    if not jobs.CLAIMS.use(job.by) and _was_sent(task, stage, job, target):
        return bool(job.uris)
    try:
        job.uris = jobs.post(task, target, job.body)
    except errors.BmcBadAnswer as why:
        if stage == CLEAR_FOREIGN and _has_said(why, _NOTHING_FOREIGN):
            return False
        reason = f"the iDRAC refused to {job.name}: {why}"
        raise errors.StepFailed(step="raid", reason=reason) from why
    return True


def _was_sent(task: base.Task, stage: str, job: DiskJob, target: str) -> bool:
    """Return whether a lost conductor sent a job, which runs or has had its effect."""
    job.uris = connection.call(task, lambda link: jobs.running(link, target))
    if job.uris or stage != CONVERT:
        return bool(job.uris)
    there = connection.call(task, storage.read_controllers)
    left = {
        str(drive["Id"])
        for one in there
        for drive in one.drives
        if drive["@odata.id"] in _non_raid_disks(one)
    }
    job.body = {"PDArray": [name for name in job.body["PDArray"] if name in left]}
    return not job.body["PDArray"]


# Boot from a virtual drive.
#
# An iDRAC whose boot device Cd is its physical drive imports a configuration that names the virtual
# drive, as a job.

VIRTUAL_DRIVES: Mapping[str, str] = {"cdrom": "VCD-DVD", "disk": "VFDD"}
"""An iDRAC's words for its virtual drives, by device type."""
IMPORT_TRIES, IMPORT_PAUSE = 35, 15.0
"""Attempts, and seconds between them, while another job runs."""
_JOB_RUNS, _PENDING = "RAC0679", "LC068"
"""Message ids of an iDRAC that imports no configuration now."""
_FIRST_IDRAC_10 = 17
"""Generation of the first machines with an iDRAC 10, as its Model begins."""


class IdracVirtualMediaBoot(boot.RedfishVirtualMediaBoot):
    """The boot interface ``idrac-redfish-virtual-media``."""

    def list_drives(self, task: base.Task) -> list[virtual_media.Drive]:
        """Return the virtual drives; an iDRAC 10 boots only from drive 1 of the system.

        :raises errors.UnsupportedDriverExtension: the machine has none.
        """
        found = super().list_drives(task)
        system = resources.system(task)
        if not any(map(_is_idrac_10, resources.managers(task, system))):
            return found
        place = f"{resources.link(system, 'VirtualMedia')}/1"
        return [dataclasses.replace(one, boots=one.path.rstrip("/") == place) for one in found]

    def boot_from(self, task: base.Task, device: str, *, persistent: bool) -> None:
        """Let the machine boot from its virtual drive, by a job of the iDRAC if that needs one.

        :raises errors.HardwareError: the iDRAC refused, or its job failed or is not done in time.
        """
        if virtual_media.foreign_cd(task) is None:
            super().boot_from(task, device, persistent=persistent)
            return
        word = VIRTUAL_DRIVES[device]
        persistent = modes.persists(task.node, persistent)
        manager, target = _importing_manager(task)
        body = {
            "ShareParameters": {"Target": ["ALL"]},
            "ImportBuffer": _boot_configuration(manager, word, once=not persistent),
        }
        uris = _import_configuration(task, target, body)
        seconds = config.CONF.drac.boot_device_job_status_timeout
        jobs.follow(task, uris, f"set the boot device {word}", seconds)


def _is_idrac_10(manager: Json) -> bool:
    generation = re.match(r"[0-9]{1,4}", resources.text(manager, "Model") or "")
    return generation is not None and int(generation[0]) >= _FIRST_IDRAC_10


def _importing_manager(task: base.Task) -> tuple[str, str]:
    """Return the Id of the manager that imports configurations, and the path of the action."""
    for manager in resources.managers(task, resources.system(task)):
        actions = resources.value(manager, "Actions", "Oem")
        for name, action in actions.items() if isinstance(actions, dict) else ():
            target = resources.text(action, "target")
            if name.endswith("#OemManager.ImportSystemConfiguration") and target:
                return str(manager.get("Id")), target
    reason = (
        "this BMC offers no ImportSystemConfiguration, by which it boots from virtual media; "
        "update the firmware of the iDRAC"
    )
    raise errors.HardwareError(reason=reason)


def _boot_configuration(manager: str, device: str, *, once: bool) -> str:
    """Return a configuration in XML; an iDRAC refuses one with blanks between its elements."""
    settings = {"BootOnce": "Enabled" if once else "Disabled", "FirstBootDevice": device}
    attributes = "".join(
        f'<Attribute Name="ServerBoot.1#{name}">{value}</Attribute>'
        for name, value in settings.items()
    )
    component = f"<Component FQDD={saxutils.quoteattr(manager)}>{attributes}</Component>"
    return f"<SystemConfiguration>{component}</SystemConfiguration>"


def _import_configuration(task: base.Task, target: str, body: Json) -> list[str]:
    """Have an iDRAC import a configuration; return the addresses of its job.

    :raises errors.HardwareError: it refused, or another job did not end in time.
    """
    for left in range(IMPORT_TRIES, -1, -1):
        try:
            return jobs.post(task, target, body)
        except errors.HardwareError as why:
            if _has_said(why, _PENDING):
                reason = (
                    "a configuration job is pending; run the step management.clear_job_queue: "
                    f"{why}"
                )
                raise errors.HardwareError(reason=reason) from why
            if not left or not _has_said(why, _JOB_RUNS):
                raise
            LOG.info("Node %s: another job of the iDRAC runs; trying again", task.node.uuid)
        task.pause(IMPORT_PAUSE)
    raise AssertionError("the last attempt returns or raises")


def _has_said(why: errors.HardwareError, word: str) -> bool:
    """Return whether a BMC's refusal has this message id, whatever its registry."""
    return any(ident.rpartition(".")[2] == word for ident in why.facts.get("message_id", ()))
