"""Deploy interfaces that other projects could bring, installed by entry points.

They record what they do in the node's ``driver_internal_info.driver_notes``.
"""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake.hardware import FakeDeploy, FakePower

WATTS = {"watts": base.Arg("The limit, a number. Default: none.")}
POINTS = """
[ironic_lite.hardware.interfaces.deploy]
old = tests.support.third_party_deploy:Old
signs = tests.support.third_party_deploy:Signs
silent = tests.support.third_party_deploy:Silent
scripted = tests.support.third_party_deploy:Scripted

[ironic_lite.hardware.interfaces.power]
metered = tests.support.third_party_deploy:Metered
"""
ENABLED = {
    "DEFAULT__enabled_deploy_interfaces": ["fake", "old", "signs", "silent", "scripted"],
    "DEFAULT__enabled_power_interfaces": ["fake", "metered"],
}


class Old(base.Deploy):
    """A deploy interface without steps, which deploys in one piece, as before the framework."""

    def deploy(self, task: base.Task) -> str | None:
        """Wait for the agent if ``driver_info.old_waits`` says so."""
        task.keep("old_deployed", task.recall("old_deployed", 0) + 1)
        return "wait call-back" if task.node.driver_info.get("old_waits") else None

    def heartbeat(self, task: base.Task) -> bool:
        return True


class Signs(base.Deploy):
    """A deploy interface whose steps return the words of the specification."""

    @base.deploy_step(priority=30)
    def nothing(self, task: base.Task) -> None:
        """Be done."""

    @base.deploy_step(priority=20)
    def waiting(self, task: base.Task) -> str:
        """Go on by itself; the agent will say when it has ended."""
        return "wait call-back"

    @base.deploy_step(priority=10)
    def failing(self, task: base.Task) -> None:
        """Fail."""
        raise errors.DeployStepFailed(step="deploy.failing", reason="the disk is gone")

    def heartbeat(self, task: base.Task) -> bool:
        return True


class Silent(FakeDeploy):
    """One that cannot tell its steps."""

    def get_deploy_steps(self, task: base.Task) -> list[base.StoredStep]:
        raise errors.HardwareError(reason="nobody may ask")


class Scripted(FakeDeploy):
    """A deploy interface that lists and runs its steps itself, without decorators."""

    def get_deploy_steps(self, task: base.Task) -> list[base.StoredStep]:
        return [
            {"interface": "deploy", "step": "second", "priority": 1},
            {"interface": "deploy", "step": "first", "priority": 2},
        ]

    def execute_deploy_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        task.keep("acts", [*task.recall("acts", ()), step["step"]])
        return None


class Metered(FakePower):
    """A power interface with a step for both deploying and cleaning."""

    @base.clean_step(priority=0, argsinfo=WATTS)
    @base.deploy_step(priority=90, argsinfo=WATTS)
    def limit(self, task: base.Task, *, watts: float | None = None) -> None:
        """Keep what it was called with."""
        task.keep("limits", [*task.recall("limits", ()), watts])
