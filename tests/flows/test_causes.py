"""Causes of failures in runs, steps and events: code, text, retryable and facts."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import timeouts
from ironic_lite.core import clock, config
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import causes, failures
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import deploy, steps
from ironic_lite.drivers.redfish import management, power
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.drivers.registry import Registry
from tests.db.conftest import database, server_urls
from tests.emulators import bmc
from tests.emulators.bmc import refusals
from tests.flows.test_timeouts import WAITS, sweep, waiting
from tests.support import crashes, scripted_agent
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.crashes import Drivers as Around
from tests.support.database_rows import insert_run

KEYS = {"code", "text", "retryable", "facts"}


def cause_of(error: dict[str, Any]) -> dict[str, Any]:
    """Return the cause of a recorded error, after what holds for every one."""
    cause: dict[str, Any] = error["cause"]
    assert cause.keys() == KEYS
    assert cause["code"] not in {"CleanStepFailed", "DeployStepFailed", "StepFailed"}
    assert cause["text"]
    assert cause["facts"]
    assert error["retryable"] is cause["retryable"]
    assert len(json.dumps(cause)) <= failures.MOST_BYTES
    return cause


# -- each fault that the fake driver plays ---------------------------------------------------


class Fault(NamedTuple):
    """A state, an endpoint with its arguments, the fault, and the code of the run's cause."""

    before: str
    method: str
    args: dict[str, Any]
    told: dict[str, Any]
    code: str = "HardwareError"
    top: str = "HardwareError"


FAKE = {
    "clean step": Fault(
        "manageable",
        "clean",
        {"clean_steps": listed("deploy.erase_devices")},
        {"fake_fail_steps": {"deploy.erase_devices": "no disk"}},
        top="CleanStepFailed",
    ),
    "automated clean step": Fault(
        "manageable",
        "provide",
        {},
        {"fake_fail_steps": {"deploy.erase_devices": "no disk"}},
        top="CleanStepFailed",
    ),
    "waiting clean step": Fault(
        "manageable",
        "clean",
        {"clean_steps": listed("deploy.erase_devices")},
        {
            "fake_fail_steps": {"deploy.erase_devices": "no disk"},
            "fake_async_steps": ["*"],
            "fake_step_seconds": 0,
        },
        top="CleanStepFailed",
    ),
    "bad argument": Fault(
        "manageable",
        "clean",
        {
            "clean_steps": [
                {
                    "interface": "bios",
                    "step": "apply_configuration",
                    "args": {"settings": [{"name": "LogicalProc"}]},
                }
            ]
        },
        {},
        code="InvalidParameter",
        top="CleanStepFailed",
    ),
    "deploy step": Fault(
        "available",
        "deploy",
        {},
        {"fake_fail_steps": {"deploy.write_image": "no disk"}},
        top="DeployStepFailed",
    ),
    "service step": Fault(
        "active",
        "service",
        {"service_steps": listed("bios.factory_reset")},
        {"fake_fail_steps": {"bios.factory_reset": "no disk"}},
        top="StepFailed",
    ),
    "power": Fault(
        "enroll",
        "manage",
        {},
        {"fake_fail_power": "no cable"},
    ),
    "verify": Fault(
        "enroll",
        "manage",
        {},
        {"fake_fail_verbs": {"verify": "no BMC"}},
        top="StepFailed",
    ),
    "inspect": Fault("manageable", "inspect", {}, {"fake_fail_verbs": {"inspect": "no agent"}}),
    "rescue": Fault(
        "active",
        "rescue",
        {"rescue_password": "sesame"},
        {"fake_fail_verbs": {"rescue": "no ramdisk"}},
    ),
    "unrescue": Fault("rescue", "unrescue", {}, {"fake_fail_verbs": {"unrescue": "no disk"}}),
    "adopt": Fault(
        "manageable",
        "adopt",
        {},
        {"fake_fail_verbs": {"adopt": "no instance"}},
    ),
    "delete": Fault("active", "delete", {}, {"fake_fail_verbs": {"delete": "no network"}}),
}


@pytest.mark.parametrize("case", FAKE.values(), ids=FAKE)
def test_each_fault_of_the_fake_driver_has_a_cause(rig: ConductorFixture, case: Fault) -> None:
    node = rig.node(case.before, **case.told)
    rig.ask(case.method, node, **case.args)
    rig.settled(node)
    assert rig.service.runtime.workers.wait_idle(60)
    run = wait_ended(rig, node)
    cause = cause_of(run["error"])
    assert (run["state"], run["error"]["code"]) == ("failed", case.top)
    assert (cause["code"], run["code"]) == (case.code, case.code)
    assert run["cause"] == key_of(rig, run)
    assert rig.events(node, "provision")[-1]["data"]["cause"] == run["cause"]
    assert not cause["retryable"]
    for failed in [step for step in run["steps"] if step["state"] == "failed"]:
        assert cause_of(failed["error"])["code"] == case.code


def key_of(rig: ConductorFixture, run: dict[str, Any]) -> str:
    """Return the key that the cause of a run has by its row and its node."""
    return causes.of_error(run["verb"], run["error"], rig.get(run["node_uuid"]))


def test_failures_that_differ_in_the_disk_have_one_cause(rig: ConductorFixture) -> None:
    found = []
    for disk in ("sdb", "sdc"):
        node = rig.node(fake_fail_steps={"deploy.erase_devices": f"disk {disk}: read-only"})
        rig.clean(node, "deploy.erase_devices")
        found.append(wait_ended(rig, node)["cause"])
    assert found[0] == found[1] is not None


def test_run_that_ended_well_has_no_cause(rig: ConductorFixture) -> None:
    node = rig.node()
    rig.clean(node, "deploy.erase_devices")
    run = wait_ended(rig, node)
    assert (run["state"], run["cause"]) == ("done", None)
    assert all("cause" not in (one["data"] or {}) for one in rig.events(node, "provision"))


def test_aborted_run_has_a_cause(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=600)
    rig.clean(node, "deploy.erase_devices")
    rig.reaches(node, "clean wait")
    rig.act("abort", node)
    run = wait_ended(rig, node)
    assert (run["state"], run["cause"]) == ("aborted", key_of(rig, run))


def wait_ended(rig: ConductorFixture, node: str) -> dict[str, Any]:
    """Return the newest run of a node once it has ended."""
    found: dict[str, Any] = wait_for(
        lambda: (run := rig.run(node))["ended_at"] and run, lambda: rig.about(node)
    )
    return found


# -- wrappers --------------------------------------------------------------------------------


def test_cause_of_a_child_names_the_child_and_its_fault(rig: ConductorFixture) -> None:
    node = rig.node()
    child = rig.node(parent_node=node, fake_fail_steps={"bios.factory_reset": "no battery"})
    step = {"interface": "bios", "step": "factory_reset", "execute_on_child_nodes": True}
    rig.call("clean", node, clean_steps=[step])
    cause = cause_of(wait_ended(rig, node)["error"])
    assert (cause["code"], cause["text"]) == ("HardwareError", "no battery")
    assert cause["facts"]["child"] == child
    told = rig.events(child, "step_ended")[-1]["data"]
    assert told["cause"]["text"] == "no battery"


def raising(name: str, why: Exception) -> Registry:
    """Return drivers of which one call raises."""

    def around(_kind: str, called: str, call: Callable[[], Any]) -> Any:
        if called == name:
            raise why
        return call()

    return cast(Registry, Around(drivers(), around, more=(name,)))


def test_exception_of_another_kind_is_named_as_the_cause(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(registry=raising("get_power_state", KeyError("power")))
    node = rig.node("enroll")
    rig.act("manage", node)
    run = wait_ended(rig, node)
    cause = cause_of(run["error"])
    assert (run["error"]["code"], cause["code"], run["code"]) == (
        "Error",
        "Unexpected",
        "Unexpected",
    )
    assert cause["facts"] == {"exception": "KeyError"}


def test_failed_clean_up_does_not_hide_the_cause(build: Callable[..., ConductorFixture]) -> None:
    why = errors.HardwareError(reason="the switch is gone")
    rig = build(registry=raising("tear_down_cleaning", why))
    node = rig.node(fake_fail_steps={"deploy.erase_devices": "no disk"})
    rig.clean(node, "deploy.erase_devices")
    error = wait_ended(rig, node)["error"]
    assert "Also, tearing down cleaning failed: the switch is gone" in error["text"]
    assert (error["code"], cause_of(error)["text"]) == ("CleanStepFailed", "no disk")


@pytest.mark.parametrize(("state", "target", "option"), [row[:3] for row in WAITS])
def test_time_out_names_its_limit_and_the_last_heartbeat(
    build: Callable[..., ConductorFixture], state: str, target: str, option: str
) -> None:
    rig = build(**{f"conductor__{option}": 1800})
    heard = clock.ago(3000)
    notes = {
        "agent_url": "https://192.0.2.7:9999",
        "agent_secret_token": "t" * 43,
        "agent_last_heartbeat": heard.isoformat(),
    }
    run = "7c16a2fd-2a3f-44b0-a9d3-1d8f5d4d9c4e"
    node = begun(rig, state, target, driver_internal_info=notes)
    open_run(rig, node, run)
    sweep(rig)
    ended = rig.run(node)
    cause = cause_of(ended["error"])
    assert (ended["error"]["code"], ended["code"]) == ("TimedOut", "AgentUnreachable")
    assert cause["retryable"]
    facts = cause["facts"]
    assert (facts["option"], facts["limit"]) == (f"[conductor]{option}", 1800)
    assert facts["heard_at"].startswith(heard.isoformat(timespec="seconds"))
    assert facts["since"]
    assert "t" * 43 not in str(ended)


def begun(rig: ConductorFixture, state: str, target: str, **values: Any) -> str:
    """Add a node that begins to wait now."""
    return waiting(rig, state, target, provision_updated_at=clock.now(), **values)


def open_run(rig: ConductorFixture, node: str, run: str) -> None:
    """Give a node the run that its verb would have opened, then let it have waited for an hour.

    Before, the service's own sweep could end the wait without a run.
    """
    row = {
        "uuid": run,
        "node_uuid": node,
        "verb": "clean",
        "request_id": "req-x",
        "state": "waiting",
        "started_at": clock.ago(3600),
    }
    rig.database.write(lambda conn: insert_run(conn, row))
    rig.edit(node, run_uuid=run, provision_updated_at=clock.ago(3600))


def test_wait_for_a_bmc_that_ends_by_time_names_its_limit(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__clean_callback_timeout=1800)
    rig.service.timers.stop()  # which would lock the node at times
    node = begun(rig, "clean wait", "manageable", wake_at=clock.ago(2000))
    open_run(rig, node, "7c16a2fd-2a3f-44b0-a9d3-1d8f5d4d9c4f")
    sweep(rig)
    cause = cause_of(rig.run(node)["error"])
    assert cause["code"] == "TimedOut"
    assert cause["facts"]["option"] == "[conductor]clean_callback_timeout"


def test_agent_that_dies_before_the_first_look_at_its_work_is_named(
    build: Callable[..., ConductorFixture],
) -> None:
    # The look at the work of an agent is a timer, as a poll of a BMC is.
    rig = build(conductor__clean_callback_timeout=1800)
    notes = {
        "agent_url": "https://192.0.2.7:9999",
        "agent_secret_token": "t" * 43,
        "agent_last_heartbeat": clock.ago(3000).isoformat(),
    }
    rig.service.timers.stop()
    due = clock.ago(2000)
    node = begun(rig, "clean wait", "manageable", driver_internal_info=notes, wake_at=due)
    rig.edit(node, clean_step={"interface": "deploy", "step": "erase_devices"})
    open_run(rig, node, "7c16a2fd-2a3f-44b0-a9d3-1d8f5d4d9c50")
    sweep(rig)
    assert cause_of(rig.run(node)["error"])["code"] == "AgentUnreachable"


# -- without a run ---------------------------------------------------------------------------


def test_failed_power_change_has_its_cause_in_the_event(rig: ConductorFixture) -> None:
    node = rig.node("active", power_state="power off", fake_fail_power="no cable")
    rig.call("change_node_power_state", node, target="power on")
    told = next(one for one in rig.events(node, "power") if one["event"] == "fail")["data"]
    assert told["cause"] == {
        "code": "PowerFailure",
        "text": "Failed to set node power state to power on: no cable",
        "retryable": False,
        "facts": {"target": "power on", "reason": "no cable"},
    }


def test_failed_operation_has_its_cause_in_the_event(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_fail_calls={"management.set_boot_mode": "no flash"})
    rig.call("change_node_boot_mode", node, mode="uefi")
    told = rig.events(node, "management")[-1]["data"]
    assert (told["cause"]["code"], told["cause"]["text"]) == ("HardwareError", "no flash")


# -- a BMC that speaks Redfish ---------------------------------------------------------------


class Redfish:
    """The drivers of nodes whose machines have a BMC that speaks Redfish."""

    def __init__(self, inner: Registry) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def driver_for(self, *args: Any) -> base.Driver:
        found = self._inner.driver_for(*args)
        bmc_power, boot = power.RedfishPower(), management.RedfishManagement()
        return dataclasses.replace(found, power=bmc_power, management=boot)


@pytest.fixture
def redfish(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> Iterator[ConductorFixture]:
    """A conductor that retries no request to a BMC."""
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    monkeypatch.setattr(power, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(power.RedfishPower, "first_pause", 0.01)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("connection_attempts", 1, group="redfish")
    config.CONF.set_override("connection_retry_interval", 0, group="redfish")
    yield build(registry=cast(Registry, Redfish(drivers())))
    config.CONF.reset()


ANSWERS: dict[str, tuple[bmc.Trick, str, dict[str, Any]]] = {
    "wrong password": (
        bmc.says(401, refusals.refusal(401, "NoValidSession", "No.").document),
        "BmcAccessDenied",
        {"http_status": 401, "user": "root"},
    ),
    "no rights": (
        bmc.says(403, refusals.refusal(403, "InsufficientPrivilege", "No.").document),
        "BmcAccessDenied",
        {"http_status": 403},
    ),
    "starting": (bmc.says(503), "BmcUnreachable", {"http_status": 503}),
    "broken": (
        bmc.says(500, refusals.refusal(500, "InternalError", "Out of memory.").document),
        "BmcBadAnswer",
        {"http_status": 500},
    ),
    "hangs up": (bmc.hangs_up, "BmcUnreachable", {}),
    "no Redfish": (bmc.says(200, ["no object"]), "BmcBadAnswer", {}),
}


@pytest.mark.parametrize(("trick", "code", "facts"), ANSWERS.values(), ids=ANSWERS)
def test_each_fault_of_a_redfish_bmc_has_a_cause(
    redfish: ConductorFixture, trick: bmc.Trick, code: str, facts: dict[str, Any]
) -> None:
    with bmc.serve(users={"root": "s3cret-w0rd"}) as machine:
        machine.tricks[f"GET {machine.system}"] = trick
        node = redfish.node("enroll", driver_info=machine.driver_info)
        redfish.act("manage", node)
        run = wait_ended(redfish, node)
    cause = cause_of(run["error"])
    assert (run["error"]["code"], cause["code"], run["code"]) == (code, code, code)
    assert cause["retryable"] is (code == "BmcUnreachable")
    assert cause["facts"].items() >= facts.items()
    assert cause["facts"]["address"] == machine.url
    assert machine.driver_info["redfish_password"] not in str(run)


def test_refused_power_change_names_the_message_of_the_bmc(redfish: ConductorFixture) -> None:
    with bmc.serve(users={"root": "s3cret-w0rd"}) as machine:
        reset = f"{machine.system}/Actions/ComputerSystem.Reset"
        said = refusals.refusal(400, "ChassisOpen", "The door is open.").document
        machine.tricks[f"POST {reset}"] = bmc.says(400, said)
        node = redfish.node("active", power_state="power off", driver_info=machine.driver_info)
        redfish.call("change_node_power_state", node, target="power on")
        told = next(one for one in redfish.events(node, "power") if one["event"] == "fail")
    cause = told["data"]["cause"]
    assert cause["code"] == "BmcBadAnswer"
    assert cause["facts"] == {
        "method": "POST",
        "path": reset,
        "http_status": 400,
        "message_id": ["Base.1.8.ChassisOpen", "Base.1.8.GeneralError"],
        "address": machine.url,
        "reason": "HTTP 400 (The door is open)",
    }


# -- the agent of a ramdisk ------------------------------------------------------------------

ERASE = {"step": "erase", "interface": "deploy", "priority": 10}


class Failing(scripted_agent.Machine):
    """A machine whose agent fails every clean step."""

    def _settle(self) -> None:
        super()._settle()
        for one in self._commands:
            if one["command_name"] == "execute_clean_step" and one["command_status"] != "RUNNING":
                one["command_status"] = "FAILED"
                one["command_error"] = {
                    "type": "CleaningError",
                    "code": 500,
                    "message": "Clean step failed",
                    "details": f"disk 3 is read-only (asked with {self.token})",
                }


def test_failed_step_of_an_agent_has_the_error_of_the_agent(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(steps, "SOON", 0.02)
    config.CONF([], default_config_files=[], default_config_dirs=[])
    with scripted_agent.running(Failing(clean=[ERASE])) as machine:
        registry = scripted_agent.registry(machine, deploy.DirectDeploy(), crashes.Life())
        rig = build(registry=registry, agent__require_tls=False)
        machine.service = rig.service
        node = rig.node()
        machine.fresh(node)
        rig.ask("provide", node)
        rig.reaches(node, "clean failed")
        run = wait_ended(rig, node)
        token = machine.token
    config.CONF.reset()
    cause = cause_of(run["error"])
    assert (run["error"]["code"], cause["code"]) == ("CleanStepFailed", "AgentCommandFailed")
    assert run["error"]["step"] == "deploy.erase"
    assert cause["facts"]["command"] == "execute_clean_step"
    assert cause["facts"]["agent_error"] == {
        "type": "CleaningError",
        "code": 500,
        "message": "disk 3 is read-only (asked with ******)",
    }
    assert token is None or token not in str(run)


# What a machine says, or a driver leaves, that no database takes: the node must not be stuck.

__all__ = ["database", "server_urls"]

SAID = "no disk \0 \ud83d here"
SHOWN = "no disk \ufffd \ufffd here"


@pytest.fixture(autouse=True)
def plain_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel test processes tell each other what was logged, and can only do so in UTF-8."""
    formatted = logging.Formatter.formatException

    def plain(self: logging.Formatter, info: Any) -> str:
        return errors.clean(formatted(self, info))

    monkeypatch.setattr(logging.Formatter, "formatException", plain)


def acting(act: Callable[[Any], None], method: str) -> Registry:
    """Return drivers of which one method does something else, with its task."""

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return act(cast(Any, call).args[0]) if name == method else call()

    return cast(Registry, crashes.Drivers(drivers(), around))


def raising_words(why: Exception) -> Callable[[Any], None]:
    def act(_task: Any) -> None:
        raise why

    return act


@pytest.mark.parametrize(
    "why",
    [errors.CleanStepFailed(step="power.cycle", reason=SAID), RuntimeError(SAID)],
    ids=["of ours", "any other"],
)
def test_a_step_fails_in_words_that_can_be_stored(
    build: Callable[..., ConductorFixture],
    database: Database,
    why: Exception,
) -> None:
    rig = build(database, registry=acting(raising_words(why), "execute_clean_step"))
    node = rig.node()
    row = rig.clean(node, "power.cycle")
    assert (row["provision_state"], row["fault"]) == ("clean failed", "clean failure")
    assert row["last_error"].endswith(SHOWN)
    assert rig.step_states(node) == ["failed"]
    assert rig.run(node)["error"]["text"] == row["last_error"] == row["maintenance_reason"]


def test_inspection_result_is_stored_with_invalid_text_replaced(
    build: Callable[..., ConductorFixture],
) -> None:
    def find(task: Any) -> None:
        task.node.properties = {"serial": SAID[8:], "sizes": [2**70]}

    rig = build(registry=acting(find, "inspect_hardware"))
    row = rig.call("inspect", rig.node())
    assert row["provision_state"] == "manageable"
    assert row["properties"] == {"serial": SHOWN[8:], "sizes": [str(2**70)]}


CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    # method -> first state, endpoint, its arguments, where it ends
    "execute_clean_step": ("manageable", "clean", {"clean_steps": listed("power.cycle")}),
    "execute_deploy_step": ("available", "deploy", {}),
    "execute_service_step": (
        *("active", "service"),
        {"service_steps": listed("vendor.log_passthrough")},
    ),
    "inspect_hardware": ("manageable", "inspect", {}),
    "rescue": ("active", "rescue", {"rescue_password": "secret"}),
}
ENDS = ("clean failed", "deploy failed", "service failed", "inspect failed", "rescue failed")


@pytest.mark.parametrize(("method", "end"), list(zip(CASES, ENDS, strict=True)))
@pytest.mark.parametrize("fails", [False, True], ids=["ends", "fails"])
def test_value_that_cannot_be_saved_leads_to_the_fail_state(
    build: Callable[..., ConductorFixture], method: str, end: str, fails: bool
) -> None:
    def leave(task: Any) -> None:
        task.node.properties = {"found": object()}
        if fails:
            raise RuntimeError("no disk")

    rig = build(registry=acting(leave, method))
    first, endpoint, args = CASES[method]
    node = rig.node(first, properties={"cpus": 1})
    row = rig.call(endpoint, node, **args)
    assert row["provision_state"] == end
    assert "Unexpected" in row["last_error"]
    assert (row["properties"], row["run_uuid"]) == ({"cpus": 1}, None)
    assert rig.run(node)["state"] == "failed"
    assert not {"running", "waiting"} & set(rig.step_states(node))
    assert rig.tasks.locks.held == frozenset()
