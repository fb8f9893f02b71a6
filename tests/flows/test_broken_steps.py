"""Each step of each phase broken in turn: by the machine, the driver and the agent."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import timeouts
from ironic_lite.core import config
from ironic_lite.drivers.agent import client, deploy, steps
from ironic_lite.drivers.registry import Registry
from tests.support import crashes, scripted_agent
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

# Each step of each phase broken in turn, by the machine and by the driver's own fault.

CLEAN = ["bios.factory_reset", "raid.delete_configuration", "management.reset_bmc"]
DEPLOY = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
SERVICE = ["vendor.log_passthrough"]
AUTOMATED = ["deploy.erase_devices_metadata", "deploy.erase_devices"]

# phase -> state before, endpoint, arguments, steps, fail state, its target, maintenance and fault
PHASES: dict[str, tuple[Any, ...]] = {
    "manual": (
        "manageable",
        "clean",
        {"clean_steps": listed(*CLEAN)},
        CLEAN,
        ("clean failed", "manageable", "clean failure"),
    ),
    "automated": (
        "manageable",
        "provide",
        {},
        AUTOMATED,
        ("clean failed", "available", "clean failure"),
    ),
    "after deletion": (
        "active",
        "delete",
        {},
        AUTOMATED,
        ("clean failed", "available", "clean failure"),
    ),
    "deploy": ("available", "deploy", {}, DEPLOY, ("deploy failed", "active", None)),
    "rebuild": (
        "active",
        "rebuild",
        {},
        DEPLOY,
        ("deploy failed", "active", None),
    ),
    "service": (
        "active",
        "service",
        {"service_steps": listed(*SERVICE)},
        SERVICE,
        ("service failed", "active", "service failure"),
    ),
}
CASES = [(phase, at) for phase, facts in PHASES.items() for at in range(len(facts[3]))]


def check(rig: ConductorFixture, node: str, phase: str, at: int, said: str) -> None:
    """Check what the failure of one step leaves."""
    steps, (state, target, fault) = PHASES[phase][3:5]
    row = rig.reaches(node, state)
    assert row["target_provision_state"] == target
    assert steps[at] in row["last_error"]
    assert said in row["last_error"]
    assert row["maintenance"] == (fault is not None)
    assert row["fault"] == fault
    assert row["maintenance_reason"] == (row["last_error"] if fault else None)
    assert rig.started(node) == steps[: at + 1]
    done, later = ["done"] * at, ["skipped"] * (len(steps) - at - 1)
    assert rig.step_states(node) == [*done, "failed", *later]
    run = rig.run(node)
    assert (run["state"], run["error"]["step"]) == ("failed", steps[at])
    assert run["ended_at"] is not None
    assert (row["run_uuid"], row["wake_at"]) == (None, None)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["at once", "while waiting"])
@pytest.mark.parametrize(("phase", "at"), CASES)
def test_the_machine_may_fail_any_step(
    rig: ConductorFixture, phase: str, at: int, asynchronous: bool
) -> None:
    state, method, args, steps, _ = PHASES[phase]
    told = {"fake_fail_steps": {steps[at]: "smoke"}}
    node = rig.node(state, **told, **({"fake_async_steps": ["*"]} if asynchronous else {}))
    rig.ask(method, node, **args)
    check(rig, node, phase, at, "smoke")


@pytest.mark.parametrize(("phase", "at"), CASES)
def test_a_driver_may_raise_anything_in_any_step(
    build: Callable[..., ConductorFixture], phase: str, at: int
) -> None:
    state, method, args = PHASES[phase][:3]
    left = [at]
    powered_off = []

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name.startswith("execute_"):
            left[0] -= 1
            if left[0] < 0:
                raise ZeroDivisionError("a bug")
        if name == "set_power_state":
            powered_off.append(call.args[1])  # type: ignore[attr-defined]
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node(state)
    rig.call(method, node, **args)
    check(rig, node, phase, at, "ZeroDivisionError: a bug")
    # A failed deployment powers its machine off (tests/flows/test_power.py).
    if phase not in ("after deletion", "deploy", "rebuild"):
        assert "power off" not in powered_off


@pytest.mark.parametrize("result", ["done", 7, object()])
def test_a_step_that_returns_nonsense_fails(
    build: Callable[..., ConductorFixture], result: object
) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return result if name == "execute_clean_step" else call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node()
    row = rig.clean(node, *CLEAN)
    assert row["provision_state"] == "clean failed"
    assert "invalid value" in row["last_error"]


def test_the_name_of_the_wait_state_reads_as_a_wait(build: Callable[..., ConductorFixture]) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return "clean wait" if name == "execute_clean_step" else call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node()
    assert rig.clean(node, *CLEAN)["provision_state"] == "clean wait"


# Lists that boot the ramdisk: no step of them says that it needs none.
ERASE = {"clean_steps": listed("deploy.erase_devices")}
SWITCH = {"service_steps": listed("power.power_on")}
# What a driver may be asked for outside its steps: verb by verb, each call broken in turn.
OUTSIDE = [
    ("enroll", "manage", {}, "get_power_state", "enroll"),
    ("manageable", "adopt", {}, "adopt", "adopt failed"),
    ("manageable", "inspect", {}, "inspect_hardware", "inspect failed"),
    ("manageable", "clean", ERASE, "prepare_cleaning", "clean failed"),
    ("manageable", "clean", ERASE, "tear_down_cleaning", "clean failed"),
    ("available", "deploy", {}, "prepare", "deploy failed"),
    ("active", "delete", {}, "tear_down", "error"),
    ("active", "rescue", {"rescue_password": "x"}, "rescue", "rescue failed"),
    ("rescue", "unrescue", {}, "unrescue", "unrescue failed"),
    ("active", "service", SWITCH, "prepare_service", "service failed"),
    ("active", "service", SWITCH, "tear_down_service", "service failed"),
]


@pytest.mark.parametrize("case", OUTSIDE, ids=lambda case: f"{case[0]}-{case[3]}")
def test_a_driver_may_raise_anything_anywhere(
    build: Callable[..., ConductorFixture], case: Any
) -> None:
    state, method, args, broken, end = case

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == broken:
            raise ZeroDivisionError("a bug")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node(state)
    row = rig.call(method, node, **args)
    assert row["provision_state"] == end
    assert "Unexpected ZeroDivisionError" in row["last_error"]
    assert rig.run(node)["state"] == "failed"
    assert row["run_uuid"] is None


# Each step of a deployment by an agent broken in turn: what fails, what is kept, what is left.

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
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(steps, "SOON", 0.02)
    monkeypatch.setattr(deploy, "_LOOK_SECONDS", 0.02)
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
def agent_rig(build: Callable[..., ConductorFixture], machine: Breaking) -> ConductorFixture:
    """A conductor for it."""
    drivers = scripted_agent.registry(machine, deploy.DirectDeploy(), crashes.Life())
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
    agent_rig: ConductorFixture, machine: Breaking, logs: pathlib.Path, step: str, in_agent: bool
) -> None:
    """The logs of a ramdisk that runs are kept, whatever it was that failed, and once."""
    machine.step, machine.in_agent = step, in_agent
    agent_rig.ask("deploy", machine.node)
    row = agent_rig.reaches(machine.node, "deploy failed")
    assert f"deploy.{step}" in row["last_error"]
    assert "smoke" in row["last_error"]
    assert not {"agent_url", "agent_secret_token"} & set(row["driver_internal_info"])
    kept = list(logs.iterdir()) if logs.exists() else []
    assert [file.read_bytes() for file in kept] == [b"its logs"] * (step in SPEAKS)
    machine.step = ""
    agent_rig.ask("deploy", machine.node)
    assert agent_rig.reaches(machine.node, "active")["last_error"] is None


@pytest.mark.parametrize("step", ["write_image", "install_bootloader", "power_off"])
def test_a_deployment_is_called_off_wherever_its_agent_is_waited_for(
    agent_rig: ConductorFixture, machine: Breaking, logs: pathlib.Path, step: str
) -> None:
    """The agent goes on with what it does, and is not believed any more; the next one is."""
    really = machine.begin

    def stick(full: str, params: dict[str, Any]) -> Any:
        found = really(full, params)
        machine.stuck = machine.ran[-1] == step
        return found

    machine.begin = stick  # type: ignore[method-assign]
    agent_rig.ask("deploy", machine.node)
    wait_for(lambda: machine.ran[-1:] == [step] and agent_rig.settled(machine.node))
    agent_rig.reaches(machine.node, "wait call-back")
    old = machine.token

    def called_off() -> Any:
        """Ask again after 409, as clients do: a poll of a slow agent holds the lock."""
        with contextlib.suppress(errors.NodeLocked):
            return agent_rig.act("abort", machine.node)

    row = wait_for(called_off)
    assert row["provision_state"] == "deploy failed"
    assert not {"agent_url", "agent_secret_token"} & set(row["driver_internal_info"])
    with pytest.raises(errors.InvalidParameter, match="agent_token"):
        agent_rig.ask(
            "heartbeat",
            machine.node,
            callback_url=machine.url,
            agent_version="13.0.0",
            agent_token=old,
        )
    machine.stuck, machine.begin = False, really  # type: ignore[method-assign]
    agent_rig.ask("deploy", machine.node)
    assert agent_rig.reaches(machine.node, "active")["last_error"] is None
