"""The firmware interface of Redfish: versions, and updates of one component after another."""

from __future__ import annotations

import dataclasses

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.domain import steps
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.redfish import interface
from ironic_lite.drivers.redfish.firmware import updates, versions

NOTE = "redfish_firmware"
"""Key of the state of a running step: `updates.Work` as JSON."""


class RedfishFirmware(interface.RedfishInterface, base.Firmware):
    """The firmware interface ``redfish``."""

    @base.clean_step(
        priority=0, argsinfo=arguments.FIRMWARE_ARGS, requires_ramdisk=False, destroys=("firmware",)
    )
    @base.deploy_step(
        priority=0,
        argsinfo=arguments.FIRMWARE_ARGS,
        rerunnable=True,
        destroys=("firmware",),
        lasting=True,
    )
    @base.service_step(
        argsinfo=arguments.FIRMWARE_ARGS,
        requires_ramdisk=False,
        rerunnable=True,
        destroys=("firmware",),
    )
    def update(self, task: base.Task, settings: list[Json]) -> base.Outcome:
        """Let the BMC fetch and write firmware, one component after another.

        This method only reads. The first poll sends the first request, after the intent was saved.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        return _go_on(task, arguments.images(settings), updates.begin())

    def cache_firmware_components(self, task: base.Task) -> list[base.FirmwareComponent]:
        """Return the versions of BIOS, BMC and network cards.

        :raises errors.UnsupportedDriverExtension: the BMC reports no version.
        """
        found = versions.components(task)
        if not found:
            raise self.unsupported(task, "firmware versions on this BMC: it reports none")
        return found

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Continue with the images; see `updates`.

        :raises errors.StepFailed: an image could not be written; the text names it and the reason.
        """
        kept = task.recall(NOTE)
        work = updates.Work(**kept) if kept else updates.begin()
        return _go_on(task, arguments.images(steps.arguments(step)["settings"]), work)


def _go_on(task: base.Task, images: list[arguments.Image], work: updates.Work) -> base.Outcome:
    try:
        pause = updates.go_on(task, images, work)
    except errors.HardwareError:
        task.keep(NOTE, None)
        raise
    if pause is None:
        task.keep(NOTE, None)
        return base.DONE
    task.keep(NOTE, dataclasses.asdict(work))
    task.wake_after(pause)
    return base.WAIT
