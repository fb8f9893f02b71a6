"""In-band inspection: a ramdisk examines its machine and reports the result.

A kernel parameter names the report URL; the ramdisk reports before its lookup. A ramdisk that
already runs on fast track is asked instead.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from ironic_lite import errors
from ironic_lite.core import config, log_lines
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import inspection
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import logs, ramdisk
from ironic_lite.drivers.agent.client import AgentClient
from ironic_lite.drivers.boot import sources

LOG = logging.getLogger(__name__)

MODE = "inspect"
CALLBACK = "ipa-inspection-callback-url"


class AgentInspect(base.Inspect):
    """The inspect interface ``agent``."""

    takes_reports: ClassVar[bool] = True

    def validate(self, task: base.Task) -> None:
        """Check that the ramdisk can be booted, and that its report URL is known.

        A missing port may be added from the BMC's data before the boot.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        try:
            _site_boots(task)
        except errors.MissingParameter as why:
            if why.facts.get("path") != "ports" or not _may_create_ports(task):
                raise
        _kernel_parameters(task)

    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, which reports; on fast track ask the running agent.

        :raises errors.HardwareError: the machine or its BMC refused, or the agent's answer is
            unusable.
        """
        if ramdisk.is_ready(task):
            inventory = AgentClient(task).call("poll.get_hardware_info", {})
            task.keep_result(_run_hooks(task, *_checked_inventory(inventory)))
            return base.DONE
        _create_ports(task)
        if _site_boots(task):
            log_lines.note_run_line("inspect", "booted by the site's own network")
            ramdisk.boot_by_site(task)
        else:
            ramdisk.boot(task, MODE, _kernel_parameters(task))
        return base.WAIT

    def continue_inspection(
        self, task: base.Task, inventory: JsonView, plugin_data: JsonView
    ) -> base.Outcome:
        """Run ``[inspector]hooks`` on the report, and take the ramdisk away.

        Nothing of the report is stored unless all hooks succeed.

        :raises errors.HardwareError: the ramdisk reports an error, a hook fails, or the machine
            cannot be switched off.
        """
        rest = dict(plugin_data)
        logs.sent(task, rest.pop("logs", None), failed=bool(rest.get("error")))
        case = _run_hooks(task, inventory, rest)
        if ramdisk.uses_fast_track(task):  # the ramdisk keeps running, for the next verb
            task.driver.boot.clean_up_ramdisk(task, MODE)
        else:
            _leave_ramdisk(task)
        task.keep_result(case)
        return base.DONE

    def abort(self, task: base.Task) -> None:
        """Take the ramdisk away.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        _leave_ramdisk(task)

    def clean_up(self, task: base.Task) -> None:
        """Take the ramdisk away.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        _leave_ramdisk(task)


def _site_boots(task: base.Task) -> bool:
    """Return whether the site's own network has to boot the machine.

    :raises errors.InvalidParameter, errors.MissingParameter: the boot interface cannot boot it,
        and the site's network must not.
    """
    boot = task.driver.boot
    try:
        boot.check_ramdisk(task, MODE)
    except errors.MissingParameter:
        if config.CONF.inspector.require_managed_boot or not boot.over_network:
            raise
        return True
    return False


def _may_create_ports(task: base.Task) -> bool:
    """Return whether the node's ports may be made from its BMC's data."""
    asks = type(task.driver.management).get_mac_addresses is not base.Management.get_mac_addresses
    return asks and config.CONF.inspector.pre_create_ports and not task.ports


def _create_ports(task: base.Task) -> None:
    """Add the network cards that the BMC reports to a node without ports."""
    if not _may_create_ports(task):
        return
    try:
        task.add_ports(task.driver.management.get_mac_addresses(task))
    except (errors.UnsupportedDriverExtension, errors.HardwareError) as why:
        LOG.warning("Node %s: its BMC reports no cards to make ports of: %s", task.node.uuid, why)


def _kernel_parameters(task: base.Task) -> dict[str, str]:
    """Return the additional kernel parameters of the ramdisk.

    :raises errors.InvalidParameter: [inspector]extra_kernel_params has a word without a value.
    :raises errors.MissingParameter: the API's URL for the ramdisk is unknown.
    """
    words = config.CONF.inspector.extra_kernel_params.split()
    bare = [word for word in words if not word.partition("=")[2]]
    if bare:
        reason = f"{bare[0]!r} is not of the form name=value"
        raise errors.InvalidParameter(path="[inspector]extra_kernel_params", reason=reason)
    more = dict(word.split("=", 1) for word in words)
    if config.CONF.inspector.force_dhcp:
        more.setdefault("ipa-collect-lldp", "1")
    # The UUID identifies a node whose network cards are still unknown.
    api = sources.api_url(media=task.driver.boot.carries_parameters(task, MODE))
    url = f"{api}/v1/continue_inspection?node_uuid={task.node.uuid}"
    return {CALLBACK: url, **more}


def _run_hooks(task: base.Task, inventory: JsonView, plugin_data: Json) -> base.Case:
    """Run the hooks.

    :raises errors.HardwareError: a hook fails, or there is no inventory.
    """
    if not inventory:
        task.run_hooks(["ramdisk-error"], {}, plugin_data)
        raise errors.HardwareError(reason="The ramdisk has sent no inventory.")
    return task.run_hooks(config.CONF.inspector.hooks, inventory, plugin_data)


def _checked_inventory(inventory: object) -> tuple[Json, Json]:
    try:
        return inspection.check({"inventory": inventory})
    except errors.InvalidRequest as why:
        raise errors.HardwareError(reason=f"The agent's inventory is invalid: {why}") from why


def _leave_ramdisk(task: base.Task) -> None:
    off = config.CONF.inspector.power_off
    ramdisk.leave(task, MODE, off=off)
    if off:
        ramdisk.restart_kept_on(task)
