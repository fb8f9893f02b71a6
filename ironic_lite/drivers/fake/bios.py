"""Fake BIOS interface, without hardware."""

from __future__ import annotations

from ironic_lite.core.json_types import Json
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.fake import stage

SETTINGS = "fake_bios_settings"


class FakeBIOS(stage.Staged, base.BIOS):
    """Stores the list of ``{"name", "value"}`` on the node, under ``SETTINGS``."""

    @base.clean_step(
        priority=0,
        argsinfo=arguments.BIOS_ARGS,
        requires_ramdisk=False,
        destroys=("settings",),
        restarts=0,
    )
    @base.deploy_step(
        priority=0,
        argsinfo=arguments.BIOS_ARGS,
        rerunnable=True,
        destroys=("settings",),
        restarts=0,
        lasting=True,
    )
    @base.service_step(
        argsinfo=arguments.BIOS_ARGS,
        requires_ramdisk=False,
        rerunnable=True,
        destroys=("settings",),
        restarts=0,
    )
    def apply_configuration(self, task: base.Task, settings: list[Json]) -> None:
        """Change the given settings and leave the others as they are.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        known = {entry["name"]: entry["value"] for entry in task.recall(SETTINGS) or ()}
        known.update(arguments.settings(settings))
        task.keep(SETTINGS, [{"name": name, "value": known[name]} for name in sorted(known)])

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("settings",), restarts=0)
    @base.deploy_step(priority=0, rerunnable=True, destroys=("settings",), restarts=0, lasting=True)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=("settings",), restarts=0)
    def factory_reset(self, task: base.Task) -> None:
        """Forget all settings."""
        task.keep(SETTINGS, None)

    def cache_bios_settings(self, task: base.Task) -> list[base.BiosSetting]:
        """Return the stored settings."""
        told = task.recall(SETTINGS) or ()
        return [base.BiosSetting(entry["name"], entry["value"]) for entry in told]
