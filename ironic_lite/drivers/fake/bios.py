"""Firmware settings of a machine that is not there."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

SETTINGS = "fake_bios_settings"

_ARGS = {
    "settings": base.Arg(
        'List of {"name": ..., "value": ...}: the settings to change.', required=True
    )
}


class FakeBIOS(stage.Staged, base.BIOS):
    """Remembers on the node, under ``SETTINGS``, the list of ``{"name", "value"}`` it was told."""

    @base.clean_step(priority=0, argsinfo=_ARGS, requires_ramdisk=False)
    @base.deploy_step(priority=0, argsinfo=_ARGS, rerunnable=True)
    @base.service_step(argsinfo=_ARGS, requires_ramdisk=False, rerunnable=True)
    def apply_configuration(self, task: base.Task, settings: list[dict[str, Any]]) -> None:
        """Change the given settings and leave the others as they are.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        known = {entry["name"]: entry["value"] for entry in task.recall(SETTINGS) or ()}
        known.update(_pairs(settings))
        task.keep(SETTINGS, [{"name": name, "value": known[name]} for name in sorted(known)])

    @base.clean_step(priority=0, requires_ramdisk=False)
    def factory_reset(self, task: base.Task) -> None:
        """Forget all settings."""
        task.keep(SETTINGS, None)


def _pairs(settings: object) -> dict[str, Any]:
    # No value is repeated: one of them may be a password of the firmware.
    if not isinstance(settings, list) or not settings:
        raise errors.InvalidParameter(
            path="settings",
            reason="must be a list of dictionaries with name and value, one at least",
        )
    found: dict[str, Any] = {}
    for position, entry in enumerate(settings):
        path = f"settings/{position}"
        if not isinstance(entry, dict) or set(entry) != {"name", "value"}:
            raise errors.InvalidParameter(
                path=path, reason="must be a dictionary with name and value, and nothing else"
            )
        if not isinstance(entry["name"], str) or not entry["name"]:
            raise errors.InvalidParameter(path=f"{path}/name", reason="is not a name")
        found[entry["name"]] = entry["value"]
    return found
