"""What an agent is told of its node with each command: a node and its ports as plain JSON.

No secret goes along: the agent has its own, and a machine's memory is no place for those of its
BMC. What [deploy] says about erasing, and which volumes are wanted, goes where the agent looks for
it.
"""

from __future__ import annotations

from typing import Any

from ironic_lite import config, errors, masking
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import modes

Json = dict[str, Any]

_LEFT_OUT = frozenset({"driver_notes", "agent_verify_ca", "agent_url"})
_OURS = frozenset({"lock_token", "lock_expires", "reservation", "generation", "wake_at"})
_ERASING = (
    # key of driver_internal_info, option of [deploy]
    ("agent_erase_devices_iterations", "shred_random_overwrite_iterations"),
    ("agent_erase_devices_zeroize", "shred_final_overwrite_with_zeros"),
    ("agent_continue_if_secure_erase_failed", "continue_if_disk_secure_erase_fails"),
    ("agent_enable_ata_secure_erase", "enable_ata_secure_erase"),
    ("agent_enable_nvme_secure_erase", "enable_nvme_secure_erase"),
    ("disk_erasure_concurrency", "disk_erasure_concurrency"),
    ("agent_erase_skip_read_only", "erase_skip_read_only"),
)


def node(task: base.Task) -> Json:
    """Return the node as the agent takes it."""
    columns = task.node.as_dict()
    shown = {
        name: masking.field(name, value) for name, value in columns.items() if name not in _OURS
    }
    kept = shown.get("driver_internal_info") or {}
    settings = config.CONF.deploy
    shown["driver_internal_info"] = {
        **{key: kept[key] for key in kept if key not in _LEFT_OUT and "_steps" not in key},
        **{key: getattr(settings, option) for key, option in _ERASING},
        "target_raid_config": shown.get("target_raid_config") or {},
        **_mode(task),
    }
    return shown


def _mode(task: base.Task) -> Json:
    """Return how the instance will boot, which decides on the partition table it gets.

    Unsaid, the agent goes by how its own ramdisk was booted; the two may differ where a BMC cannot
    be told.
    """
    try:
        return {"deploy_boot_mode": modes.wanted(task.node)}
    except errors.InvalidParameter:
        return {}  # deployments are refused for it; a clean needs none


def ports(task: base.Task) -> list[Json]:
    """Return the node's ports as the agent takes them."""
    return [port.as_dict() for port in task.ports]


def both(task: base.Task) -> Json:
    """Return the two arguments that all commands about steps have."""
    return {"node": node(task), "ports": ports(task)}
