"""The hardware manager that the agent loads.

It stands before all others, hands each call on to the next one, and returns facts about each disk
in place of nothing. The agent's own code does the erasing, except for ``[deploy]erase_method =
purge`` on disks with a sanitize command.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import logging
import threading
from typing import Any

from ironic_python_agent import errors, hardware

from ironic_lite_evidence import commands, devices, purge, report, samples

LOG = logging.getLogger(__name__)
METHOD = "erase_method"
"""Key of ``driver_internal_info``: ``clear`` or ``purge``."""
READER = "erasure_reports"
"""Key of ``driver_internal_info``: true from services that fail the step for a disk that is not
erased. Others take a step that returns for a step that has succeeded."""
_BEFORE_OTHERS = hardware.HardwareSupport.SERVICE_PROVIDER + 1
_EXPRESS = "erase_devices_express"
_SKIP = "skip_block_devices"
_NOTHING = "no erasing program was seen"
Json = dict[str, Any]


class DisksNotErased(errors.BlockDeviceEraseError):  # type: ignore[misc]  # the agent has no types
    """A step failed for a disk; ``erasure`` has the facts of all disks."""

    serializable_fields = (*errors.BlockDeviceEraseError.serializable_fields, "erasure")

    def __init__(self, details: str, erasure: Json) -> None:
        super().__init__(details)
        self.erasure = erasure


@dataclasses.dataclass
class _Observed:
    """Observations of one step, by the names of disks."""

    listed: dict[str, Json]
    """Disks before the step."""
    chosen: set[str]
    """Those that ``skip_block_devices`` does not name."""
    before: dict[str, samples.Samples]
    """Samples before a step that erases disks in its own thread."""
    started_at: str
    seen: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    failure: Exception | None = None


class EvidenceManager(hardware.HardwareManager):  # type: ignore[misc]  # the agent has no types
    """Reports how each disk was erased."""

    HARDWARE_MANAGER_NAME = "evidence"
    HARDWARE_MANAGER_VERSION = "1"

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._found: dict[str, Json] = {}
        """Facts of the disks that the present step has erased, by name; new for each step."""
        self._under_way: list[str] = []
        """Disks being erased, also by threads that an earlier step has left behind."""

    def evaluate_hardware_support(self) -> int:
        """Stand before all other managers."""
        return int(_BEFORE_OTHERS)

    # -- steps -----------------------------------------------------------------------------------

    def erase_devices(self, node: Json, ports: list[Json]) -> Json:
        """Erase all disks.

        :raises DisksNotErased: a disk is not erased, and the service does not read reports.
        """
        return self._step("erase_devices", node, ports)

    def erase_devices_metadata(self, node: Json, ports: list[Json]) -> Json:
        """Erase partition tables and the like.

        :raises DisksNotErased: with the facts of all disks.
        """
        return self._step("erase_devices_metadata", node, ports)

    def erase_devices_express(self, node: Json, ports: list[Json]) -> Json:
        """Format NVMe disks, and erase the metadata of others.

        :raises DisksNotErased: with the facts of all disks.
        """
        return self._step(_EXPRESS, node, ports)

    def erase_block_device(self, node: Json, block_device: Any) -> Json:
        """Erase one disk and return its facts; may be called for several disks at once.

        :raises errors.BlockDeviceEraseError: the disk is not erased.
        """
        disk = block_device.serialize()
        with self._lock:
            of_step = self._found
            self._under_way.append(disk["name"])
        try:
            found = self._erased(node, block_device, disk)
            with self._lock:
                of_step[disk["name"]] = found
        finally:
            with self._lock:
                self._under_way.remove(disk["name"])
        if found["result"] == report.FAILED:
            # IncompatibleHardwareMethodError would have the next manager erase the disk again.
            raise errors.BlockDeviceEraseError(f"{disk['name']}: {found['why']}")
        return found

    # -- how -------------------------------------------------------------------------------------

    def _erased(self, node: Json, block_device: Any, disk: Json) -> Json:
        """Erase one disk and return its facts."""
        started = report.now()
        before = _sampled(disk)
        failure: str | None = None
        refused = 0
        with commands.watching() as seen:
            try:
                if not _purged(node, disk["name"]):
                    refused = len(seen)
                    self._next("erase_block_device", node=node, block_device=block_device)
            except Exception as why:  # all of it is told, and raised as one kind below
                LOG.exception("Erasing %s failed", disk["name"])
                failure = str(why) or type(why).__name__
        if not commands.erasing(disk["name"], seen[refused:]):
            seen = []  # a sanitize that the disk refused has erased nothing
        counts = samples.compare(before, samples.read(disk["name"], list(before)))
        found = report.erased(disk, seen, counts, failure)
        return found | {"started_at": started, "ended_at": report.now()}

    def _step(self, step: str, node: Json, ports: list[Json]) -> Json:
        with self._lock:
            self._found = {}
        listed = self._listed()
        chosen = {disk.name for disk in self._next("list_block_devices_check_skip_list", node)}
        sampled = chosen & set(listed) if step == _EXPRESS else ()
        before = {name: _sampled(listed[name]) for name in sampled}
        observed = _Observed(listed, chosen, before, report.now())
        with commands.watching() as observed.seen:
            try:
                self._next(step, node, ports)
            except Exception as why:  # told with the facts of all disks
                observed.failure = why
        # A disk that appeared during the step is a disk of the machine, too.
        every = listed | self._listed()
        found = [self._fact(disk, observed) for disk in every.values()]
        facts = report.of_step(found, hardware.get_current_versions(), _agent_version())
        # In the logs of the ramdisk, too, for services that drop what a step returns.
        LOG.info("Disks after %s: %s", step, json.dumps(facts))
        told = _reads_reports(node) and any(one["result"] == report.FAILED for one in found)
        if observed.failure is not None and not told:
            raise DisksNotErased(str(observed.failure), facts) from observed.failure
        return facts

    def _listed(self) -> dict[str, Json]:
        """Return the disks of the machine by name."""
        return {disk.name: disk.serialize() for disk in self._next("list_block_devices")}

    def _fact(self, disk: Json, observed: _Observed) -> Json:
        """Return the facts of a disk after a step."""
        name = disk["name"]
        with self._lock:
            known, under_way = self._found.get(name), name in self._under_way
        if under_way:
            ended = observed.failure or "without an error"
            return report.failed(disk, f"still being erased; the step ended: {ended}")
        if known is not None:
            return known
        if name not in observed.chosen:
            late = name not in observed.listed
            return report.skipped(disk, "appeared during the step" if late else _SKIP)
        failure = observed.failure
        ran = commands.erasing(name, observed.seen)
        if not ran:
            why = devices.why_untouched(name)
            return report.skipped(disk, why or report.line(str(failure or _NOTHING)))
        before = observed.before.get(name)
        if before is not None and ran[-1].level != commands.NONE:
            counts = samples.compare(before, samples.read(name, list(before)))
            told = None if failure is None else str(failure) or type(failure).__name__
            found = report.erased(disk, observed.seen, counts, told)
            return found | {"started_at": observed.started_at, "ended_at": report.now()}
        # Metadata: nothing is sampled, because most of the disk stays as it was.
        return {
            **report.identity(disk),
            "method": ran[-1].text,
            "level": commands.NONE,
            "why": None if failure is None else report.line(str(failure)),
            "result": report.ERASED if failure is None else report.FAILED,
        }

    def _next(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the next hardware manager that has a method, as the agent does.

        :raises errors.BlockDeviceEraseError: none has it, or the disk is of an unknown kind.
        """
        why: Exception | None = None
        for manager in hardware.get_managers():
            if manager is self or not hasattr(manager, method):
                continue
            try:
                return getattr(manager, method)(*args, **kwargs)
            except errors.IncompatibleHardwareMethodError as told:
                why = told
        raise errors.BlockDeviceEraseError(str(why or f"no hardware manager has {method}"))


def _reads_reports(node: Json) -> bool:
    """Return whether the service fails the step itself for a disk that is not erased."""
    return bool((node.get("driver_internal_info") or {}).get(READER))


def _sampled(disk: Json) -> samples.Samples:
    """Return the content of a disk at new random places."""
    return samples.read(disk["name"], samples.offsets(int(disk["size"] or 0)))


def _purged(node: Json, name: str) -> bool:
    """Sanitize a disk if that is wanted and possible; False if the disk is to be erased yet."""
    info = node.get("driver_internal_info") or {}
    if info.get(METHOD) != commands.PURGE or devices.why_untouched(name) is not None:
        return False
    try:
        return purge.sanitize(name)
    except purge.Failed as why:
        raise errors.BlockDeviceEraseError(str(why)) from why


def _agent_version() -> str:
    try:
        return importlib.metadata.version("ironic-python-agent")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
