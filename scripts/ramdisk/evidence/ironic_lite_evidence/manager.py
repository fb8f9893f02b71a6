"""The hardware manager that the agent loads.

It stands before all others, hands each call on to the next one, and returns facts about each disk
in place of nothing. The agent's own code does the erasing, except for ``[deploy]erase_method =
purge`` on disks with a sanitize command.
"""

from __future__ import annotations

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
_NOTHING = "no erasing program was seen"
Json = dict[str, Any]


class DisksNotErased(errors.BlockDeviceEraseError):  # type: ignore[misc]  # the agent has no types
    """A step failed for a disk; ``erasure`` has the facts of all disks."""

    serializable_fields = (*errors.BlockDeviceEraseError.serializable_fields, "erasure")

    def __init__(self, details: str, erasure: Json) -> None:
        super().__init__(details)
        self.erasure = erasure


class EvidenceManager(hardware.HardwareManager):  # type: ignore[misc]  # the agent has no types
    """Reports how each disk was erased."""

    HARDWARE_MANAGER_NAME = "evidence"
    HARDWARE_MANAGER_VERSION = "1"

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._found: dict[str, Json] = {}

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
        return self._step("erase_devices_express", node, ports)

    def erase_block_device(self, node: Json, block_device: Any) -> Json:
        """Erase one disk and return its facts; may be called for several disks at once.

        :raises errors.BlockDeviceEraseError: the disk is not erased.
        """
        disk = block_device.serialize()
        started = report.now()
        places = samples.offsets(int(disk["size"] or 0))
        before = samples.read(disk["name"], places)
        failure: str | None = None
        with commands.watching() as seen:
            try:
                if not _purged(node, disk["name"]):
                    self._next("erase_block_device", node=node, block_device=block_device)
            except Exception as why:  # all of it is told, and raised as one kind below
                LOG.exception("Erasing %s failed", disk["name"])
                failure = str(why) or type(why).__name__
        counts = samples.compare(before, samples.read(disk["name"], places))
        found = report.erased(disk, seen, counts, failure)
        found |= {"started_at": started, "ended_at": report.now()}
        with self._lock:
            self._found[disk["name"]] = found
        if found["result"] == report.FAILED:
            # IncompatibleHardwareMethodError would have the next manager erase the disk again.
            raise errors.BlockDeviceEraseError(f"{disk['name']}: {found['why']}")
        return found

    # -- how -------------------------------------------------------------------------------------

    def _step(self, step: str, node: Json, ports: list[Json]) -> Json:
        with self._lock:
            self._found.clear()
        every = [disk.serialize() for disk in self._next("list_block_devices")]
        chosen = {disk.name for disk in self._next("list_block_devices_check_skip_list", node)}
        failure: Exception | None = None
        with commands.watching() as seen:
            try:
                self._next(step, node, ports)
            except Exception as why:  # told with the facts of all disks
                failure = why
        found = [self._fact(disk, chosen, seen, failure) for disk in every]
        facts = report.of_step(found, hardware.get_current_versions(), _agent_version())
        # In the logs of the ramdisk, too, for services that drop what a step returns.
        LOG.info("Disks after %s: %s", step, json.dumps(facts))
        if failure is not None and not (self._found and _reads_reports(node)):
            raise DisksNotErased(str(failure), facts) from failure
        return facts

    def _fact(
        self, disk: Json, chosen: set[str], seen: list[tuple[str, ...]], failure: Exception | None
    ) -> Json:
        """Return the facts of a disk after a step."""
        known = self._found.get(disk["name"])
        if known is not None:
            return known
        if disk["name"] not in chosen:
            return report.skipped(disk, "skip_block_devices")
        ran = commands.erasing(disk["name"], seen)
        if not ran:
            why = devices.why_untouched(disk["name"])
            return report.skipped(disk, why or report.line(str(failure or _NOTHING)))
        # Steps on metadata: nothing is sampled, because most of the disk stays as it was.
        last = ran[-1]
        told = {"method": last.text, "level": last.level, "why": None}
        if failure is not None:
            told = {"method": last.text, "level": commands.NONE, "why": report.line(str(failure))}
        result = report.FAILED if failure is not None else report.ERASED
        return {**report.identity(disk), **told, "result": result}

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
