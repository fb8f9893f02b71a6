"""In which order a machine is deployed by each deploy interface with an agent."""

from __future__ import annotations

import pytest

from ironic_lite.domain import steps
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.deploy import CustomAgentDeploy
from ironic_lite.drivers.agent.direct import DirectDeploy

ORDERS: dict[type[base.Deploy], list[tuple[str, int]]] = {
    DirectDeploy: [
        ("deploy.deploy", 100),
        ("deploy.write_image", 80),
        ("deploy.prepare_instance_boot", 60),
        ("deploy.tear_down_agent", 40),
        ("deploy.switch_to_tenant_network", 30),
        ("deploy.boot_instance", 20),
    ],
    CustomAgentDeploy: [
        ("deploy.deploy", 100),
        ("deploy.tear_down_agent", 40),
        ("deploy.boot_instance", 20),
    ],
}
"""What templates and requests count on, by Ironic's names and priorities: steps of an agent go in
between."""


@pytest.mark.parametrize("interface", ORDERS, ids=lambda one: str(one.__name__))
def test_the_ramdisk_comes_before_the_image_and_goes_before_the_instance(
    interface: type[base.Deploy],
) -> None:
    found = steps.collect("deploy", interface(), base.StepKind.DEPLOY)
    ordered = sorted(found, key=lambda step: -step.priority)
    assert [(step.title, step.priority) for step in ordered] == ORDERS[interface]
