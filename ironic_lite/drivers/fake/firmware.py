"""Fake firmware interface, without hardware."""

from __future__ import annotations

import posixpath
import urllib.parse

from ironic_lite.core.json_types import Json
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.fake import stage

VERSIONS = "fake_firmware"


class FakeFirmware(stage.Staged, base.Firmware):
    """Stores each component's image on the node, under ``VERSIONS``.

    The name of an image without its extension counts as its version.
    """

    @base.clean_step(
        priority=0,
        argsinfo=arguments.FIRMWARE_ARGS,
        requires_ramdisk=False,
        destroys=("firmware",),
        restarts=0,
    )
    @base.deploy_step(
        priority=0,
        argsinfo=arguments.FIRMWARE_ARGS,
        rerunnable=True,
        destroys=("firmware",),
        restarts=0,
        lasting=True,
    )
    @base.service_step(
        argsinfo=arguments.FIRMWARE_ARGS,
        requires_ramdisk=False,
        rerunnable=True,
        destroys=("firmware",),
        restarts=0,
    )
    def update(self, task: base.Task, settings: list[Json]) -> None:
        """Take the images, in their order.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        known = dict(task.recall(VERSIONS) or {})
        for image in arguments.images(settings):
            name = posixpath.basename(urllib.parse.urlsplit(image.url).path)
            known[image.component] = posixpath.splitext(name)[0] or "unknown"
        task.keep(VERSIONS, known)

    def cache_firmware_components(self, task: base.Task) -> list[base.FirmwareComponent]:
        """Return the stored versions."""
        known = task.recall(VERSIONS) or {}
        return [base.FirmwareComponent(name, known[name]) for name in sorted(known)]
