"""Node and ports as plain JSON for an agent's commands.

They contain no secret: the agent has its own, and BMC passwords must not be in a machine's memory.
The erasing options of [deploy] and the requested volumes are put where the agent reads them.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.core import config, masking
from ironic_lite.core.json_types import Json
from ironic_lite.domain import erasure_results
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import modes

_LEFT_OUT = frozenset({"driver_notes", "agent_verify_ca", "agent_url"})
_LOCK = frozenset({"lock_token", "lock_expires", "locked_at", "lock_note", "reservation"})
_OURS = _LOCK | {"generation", "wake_at", "run_stop"}
_ERASING = (
    # key of driver_internal_info, option of [deploy]
    ("agent_erase_devices_iterations", "shred_random_overwrite_iterations"),
    ("agent_erase_devices_zeroize", "shred_final_overwrite_with_zeros"),
    ("agent_continue_if_secure_erase_failed", "continue_if_disk_secure_erase_fails"),
    ("agent_enable_ata_secure_erase", "enable_ata_secure_erase"),
    ("agent_enable_nvme_secure_erase", "enable_nvme_secure_erase"),
    ("erase_method", "erase_method"),
    ("disk_erasure_concurrency", "disk_erasure_concurrency"),
    ("agent_erase_skip_read_only", "erase_skip_read_only"),
)


def node(task: base.Task) -> Json:
    """Return the node as the agent expects it."""
    columns = task.node.as_dict()
    shown = {
        name: masking.field(name, value) for name, value in columns.items() if name not in _OURS
    }
    kept = shown.get("driver_internal_info") or {}
    settings = config.CONF.deploy
    shown["driver_internal_info"] = {
        **{key: kept[key] for key in kept if key not in _LEFT_OUT and "_steps" not in key},
        **{key: getattr(settings, option) for key, option in _ERASING},
        erasure_results.READER: True,
        "target_raid_config": shown.get("target_raid_config") or {},
        **_boot_mode(task),
    }
    return shown


def _boot_mode(task: base.Task) -> Json:
    """Return the instance's boot mode, which decides on the type of its partition table.

    Without it, the agent uses the boot mode of its own ramdisk, which may differ where a BMC does
    not support boot modes.
    """
    try:
        return {"deploy_boot_mode": modes.wanted(task.node)}
    except errors.InvalidParameter:
        return {}  # deployments are refused for it; a clean does not need it


def ports(task: base.Task) -> list[Json]:
    """Return the node's ports as the agent expects them."""
    return [port.as_dict() for port in task.ports]


def both(task: base.Task) -> Json:
    """Return the two arguments that all commands about steps have in common."""
    return {"node": node(task), "ports": ports(task)}
