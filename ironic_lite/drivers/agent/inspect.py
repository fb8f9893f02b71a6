"""Inspection from within: a ramdisk looks at its machine and tells what it is made of.

It is told by a kernel parameter where to send that, and sends it before it asks who it is. One that
runs already, for fast track, is asked instead.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import config, errors, inspection
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import logs, ramdisk, standby
from ironic_lite.drivers.agent.client import Client
from ironic_lite.drivers.boot import sources

LOG = logging.getLogger(__name__)

Json = dict[str, Any]

MODE = "inspect"
CALLBACK = "ipa-inspection-callback-url"


class AgentInspect(base.Inspect):
    """The inspect interface ``agent``."""

    takes_reports: ClassVar[bool] = True

    def validate(self, task: base.Task) -> None:
        """Check that the ramdisk could be booted, and knows where to report.

        :raises errors.InvalidParameter, errors.MissingParameter: naming what is wrong.
        """
        task.driver.boot.check_ramdisk(task, MODE)
        _parameters(task)

    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, which reports; on the fast track the one that runs is asked.

        :raises errors.HardwareError: the machine or its BMC refused, or the agent does not answer
            as it should.
        """
        if standby.ready(task):
            inventory = Client(task).call("poll.get_hardware_info", {})
            _keep(task, _judged(task, *_checked(inventory)))
            return base.DONE
        ramdisk.boot(task, MODE, _parameters(task))
        return base.WAIT

    def continue_inspection(
        self, task: base.Task, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]
    ) -> base.Outcome:
        """Make of the report what ``[inspector]hooks`` say, and put the ramdisk away.

        Nothing of the report is kept unless all hooks could go on.

        :raises errors.HardwareError: the ramdisk reports an error, a hook cannot go on, or the
            machine cannot be switched off.
        """
        rest = dict(plugin_data)
        logs.sent(task, rest.pop("logs", None), failed=bool(rest.get("error")))
        case = _judged(task, inventory, rest)
        if standby.wanted(task):  # it goes on, for the next verb
            task.driver.boot.clean_up_ramdisk(task, MODE)
        else:
            _leave(task)
        _keep(task, case)
        return base.DONE

    def abort(self, task: base.Task) -> None:
        """Put the ramdisk away.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        _leave(task)

    def clean_up(self, task: base.Task) -> None:
        """Put the ramdisk away.

        :raises errors.HardwareError: the machine or its BMC refused.
        """
        _leave(task)


def _parameters(task: base.Task) -> dict[str, str]:
    """Return what the ramdisk is told beside its usual parameters.

    :raises errors.InvalidParameter: [inspector]extra_kernel_params has a word without a value.
    :raises errors.MissingParameter: it is not known where the ramdisk finds the API.
    """
    words = config.CONF.inspector.extra_kernel_params.split()
    bare = [word for word in words if not word.partition("=")[2]]
    if bare:
        reason = f"{bare[0]!r} is not of the form name=value"
        raise errors.InvalidParameter(path="[inspector]extra_kernel_params", reason=reason)
    more = dict(word.split("=", 1) for word in words)
    # The UUID finds a node whose network cards nobody has told us yet.
    url = f"{sources.api_url()}/v1/continue_inspection?node_uuid={task.node.uuid}"
    return {CALLBACK: url, **more}


def _judged(task: base.Task, inventory: Mapping[str, Any], plugin_data: Json) -> inspection.Case:
    """Run the hooks.

    :raises errors.HardwareError: one of them cannot go on, or there is nothing to go on with.
    """
    conf = config.CONF
    case = inspection.Case(
        inventory,
        plugin_data,
        dict(task.node.properties or {}),
        conf.inspector.add_ports,
        extra=dict(task.node.extra or {}),
        aliases=dict(conf.pci_devices.alias or ()),
    )
    if not inventory:
        inspection.run(["ramdisk-error"], case)
        raise errors.HardwareError(reason="The ramdisk has sent no inventory.")
    return inspection.run(conf.inspector.hooks, case)


def _checked(inventory: Any) -> tuple[Json, Json]:
    try:
        return inspection.check({"inventory": inventory})
    except errors.InvalidRequest as why:
        raise errors.HardwareError(reason=f"The agent tells no inventory: {why}") from why


def _keep(task: base.Task, case: inspection.Case) -> None:
    """Write down what the hooks have made."""
    for remark in case.remarks:
        LOG.warning("Node %s: %s", task.node.uuid, remark)
    task.add_ports(case.ports)
    task.node.properties, task.node.extra = case.properties, case.extra
    task.keep_inventory(case.inventory, case.plugin_data)


def _leave(task: base.Task) -> None:
    ramdisk.leave(task, MODE, off=config.CONF.inspector.power_off)
