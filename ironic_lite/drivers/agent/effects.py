"""Effects of the agent's own steps, by name: the agent does not report them.

The names are those of ironic-python-agent's generic hardware manager. Steps of other hardware
managers are unknown, unless they have one of these names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from ironic_lite.domain.step_effects import Effects
from ironic_lite.drivers import base

_DATA, _VOLUMES = ("data",), ("data", "volumes")
_DESTROYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "deploy.erase_devices": _DATA,
        "deploy.erase_devices_metadata": _DATA,
        "deploy.erase_devices_express": _DATA,
        "deploy.erase_pstore": _DATA,
        "deploy.clean_uefi_nvram": ("settings",),
        "deploy.burnin_cpu": (),
        "deploy.burnin_gpu": (),
        "deploy.burnin_disk": _DATA,
        "deploy.burnin_memory": (),
        "deploy.burnin_network": (),
        "deploy.write_image": _DATA,
        "deploy.execute_bootc_install": _DATA,
        "deploy.inject_files": (),
        "raid.create_configuration": _VOLUMES,
        "raid.apply_configuration": _VOLUMES,
        "raid.delete_configuration": _VOLUMES,
    }
)
"""Names of steps, and what they destroy. A burn-in of disks writes to them."""


def of_agent(kind: base.StepKind, step: base.StoredStep) -> Effects:
    """Return the effects of a step that the agent carries out.

    :param step: with ``reboot_requested`` if the agent asks for a restart after it.
    """
    lasting = kind is not base.StepKind.DEPLOY
    destroys = _DESTROYS.get(f"{step['interface']}.{step['step']}")
    if destroys is None:
        return Effects(lasting=lasting)
    return Effects(destroys, 1 if step.get("reboot_requested") else 0, lasting)


def is_agents(step: base.StoredStep) -> bool:
    """Return whether the agent has a step of this name."""
    return f"{step['interface']}.{step['step']}" in _DESTROYS


def written_by(found: Effects, *, whole_disk: bool) -> Effects:
    """Return the effects of writing an image.

    A whole-disk image lasts. Of a partition image the agent keeps in memory what the boot loader
    needs, so a new ramdisk must write the image again.
    """
    return dataclasses.replace(found, lasting=whole_disk)
