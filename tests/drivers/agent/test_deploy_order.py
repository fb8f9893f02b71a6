"""What each deploy interface with an agent does by itself, and in which order."""

from __future__ import annotations

import pytest

from ironic_lite.domain import steps
from ironic_lite.drivers.agent.deploy import AgentDeploy, CustomAgentDeploy
from ironic_lite.drivers.agent.direct import DirectDeploy
from ironic_lite.drivers.agent.ramdisk_deploy import RamdiskDeploy

ORDERS: dict[str, tuple[AgentDeploy, list[tuple[int, str]]]] = {
    "direct": (
        DirectDeploy(),
        [
            (100, "deploy.deploy"),
            (80, "deploy.write_image"),
            (60, "deploy.prepare_instance_boot"),
            (40, "deploy.tear_down_agent"),
            (30, "deploy.switch_to_tenant_network"),
            (20, "deploy.boot_instance"),
        ],
    ),
    "custom-agent": (
        CustomAgentDeploy(),
        [(100, "deploy.deploy"), (40, "deploy.tear_down_agent"), (20, "deploy.boot_instance")],
    ),
    "ramdisk": (RamdiskDeploy(), [(100, "deploy.deploy")]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_steps_come_in_the_order_that_templates_are_written_for(name: str) -> None:
    """Those of agents and templates go in between by their priorities; each may be run again."""
    interface, wanted = ORDERS[name]
    found = steps.collect("deploy", interface, steps.StepKind.DEPLOY)
    assert sorted(((one.priority, one.title) for one in found), reverse=True) == wanted
    assert all(one.rerunnable for one in found)
