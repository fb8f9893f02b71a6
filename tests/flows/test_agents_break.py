"""Each step of a deployment by an agent broken in turn: what fails, what is kept, what is left."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import timers
from ironic_lite.core import config
from ironic_lite.drivers.agent import client, direct, steps
from tests.support import crashes, scripted_agent
from tests.support.conductor_fixture import ConductorFixture, wait_for

IMAGE = {
    "image_source": "http://192.0.2.80/jammy.raw",
    "image_checksum": "a" * 64,
    "image_disk_format": "raw",
    "capabilities": {"boot_mode": "uefi"},
}
STEPS = (
    "deploy",
    "write_image",
    "prepare_instance_boot",
    "tear_down_agent",
    "switch_to_tenant_network",
    "boot_instance",
)
SPEAKS = STEPS[1:4]
"""Those during which an agent runs."""


class Breaking(scripted_agent.Machine):
    """A machine whose deployment breaks at one step: where it is begun, or in the agent."""

    step = ""
    in_agent = False
    stuck = False
    """Whether its commands never end."""

    def around(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        args: tuple[Any, ...] = getattr(call, "args", ())
        begins = name == "execute_deploy_step" and args[1]["step"] == self.step
        if begins and not self.in_agent:
            raise errors.HardwareError(reason="smoke")
        return super().around(kind, name, call)

    def _settle(self) -> None:
        if self.stuck:
            return
        super()._settle()
        for one in self._commands:
            step = (one["command_result"] or {}).get("deploy_step") or {}
            if self.in_agent and step.get("step") == self.step and self._over(one):
                one["command_status"] = "FAILED"
                one["command_error"] = {"type": "ImageWriteError", "details": "smoke"}

    @staticmethod
    def _over(one: dict[str, Any]) -> bool:
        return bool(one["command_status"] == "SUCCEEDED")


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The folder of logs; nobody is waited for longer than need be."""
    monkeypatch.setattr(timers, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(steps, "SOON", 0.02)
    monkeypatch.setattr(direct, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(client, "_PAUSE", 0.02)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("deploy_logs_local_path", str(tmp_path / "logs"), "agent")
    yield tmp_path / "logs"
    config.CONF.clear_override("deploy_logs_local_path", "agent")
    config.CONF.reset()


@pytest.fixture
def machine() -> Iterator[Breaking]:
    """The machine of `deploy`."""
    with scripted_agent.running(Breaking()) as found:
        assert isinstance(found, Breaking)
        yield found


@pytest.fixture
def rig(build: Callable[..., ConductorFixture], machine: Breaking) -> ConductorFixture:
    """A conductor for it."""
    drivers = scripted_agent.registry(machine, direct.DirectDeploy(), crashes.Life())
    rig = build(registry=drivers, agent__require_tls=False)
    machine.service = rig.service
    machine.node = rig.node("available", instance_info=IMAGE)
    return rig


@pytest.mark.parametrize(
    ("step", "in_agent"),
    [*((step, False) for step in STEPS), ("write_image", True)],
    ids=[*STEPS, "write_image by the agent"],
)
def test_any_step_of_a_deployment_by_an_agent_may_break(
    rig: ConductorFixture, machine: Breaking, logs: pathlib.Path, step: str, in_agent: bool
) -> None:
    """The logs of a ramdisk that runs are kept, whatever it was that failed, and once."""
    machine.step, machine.in_agent = step, in_agent
    rig.ask("do_node_deploy", machine.node)
    row = rig.reaches(machine.node, "deploy failed")
    assert f"deploy.{step}" in row["last_error"]
    assert "smoke" in row["last_error"]
    assert not {"agent_url", "agent_secret_token"} & set(row["driver_internal_info"])
    kept = list(logs.iterdir()) if logs.exists() else []
    assert [file.read_bytes() for file in kept] == [b"its logs"] * (step in SPEAKS)
    machine.step = ""
    rig.ask("do_node_deploy", machine.node)
    assert rig.reaches(machine.node, "active")["last_error"] is None


@pytest.mark.parametrize("step", ["write_image", "install_bootloader", "power_off"])
def test_a_deployment_is_called_off_wherever_its_agent_is_waited_for(
    rig: ConductorFixture, machine: Breaking, logs: pathlib.Path, step: str
) -> None:
    """The agent goes on with what it does, and is not believed any more; the next one is."""
    really = machine.begin

    def stick(full: str, params: dict[str, Any]) -> Any:
        found = really(full, params)
        machine.stuck = machine.ran[-1] == step
        return found

    machine.begin = stick  # type: ignore[method-assign]
    rig.ask("do_node_deploy", machine.node)
    wait_for(lambda: machine.ran[-1:] == [step] and rig.settled(machine.node))
    rig.reaches(machine.node, "wait call-back")
    old = machine.token
    row = rig.act("abort", machine.node)
    assert row["provision_state"] == "deploy failed"
    assert not {"agent_url", "agent_secret_token"} & set(row["driver_internal_info"])
    with pytest.raises(errors.InvalidParameter, match="agent_token"):
        rig.ask(
            "heartbeat",
            machine.node,
            callback_url=machine.url,
            agent_version="13.0.0",
            agent_token=old,
        )
    machine.stuck, machine.begin = False, really  # type: ignore[method-assign]
    rig.ask("do_node_deploy", machine.node)
    assert rig.reaches(machine.node, "active")["last_error"] is None
