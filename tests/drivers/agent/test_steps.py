"""Steps of a real agent, what is read of its answers and told to it, and lost locks."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import client, ramdisk, steps
from ironic_lite.drivers.agent.client import AgentClient, Command, CommandStatus
from ironic_lite.drivers.agent.deploy import CustomAgentDeploy, DirectDeploy
from tests.emulators.agent import process
from tests.support import expiring_locks, fake_task
from tests.support.fake_task import FakeTask, node
from tests.support.real_agent import AT, until

# Steps given to a real agent: begun once, followed until they end, whoever asks.

CLEAN = base.StepKind.CLEAN
DEPLOY = CustomAgentDeploy()
LINGER: base.StoredStep = {"interface": "deploy", "step": "linger", "args": {"flag": "go"}}
SCRUB: base.StoredStep = {"interface": "deploy", "step": "scrub", "args": {}}


def ended(task: FakeTask, step: base.StoredStep) -> base.Outcome:
    found: base.Outcome = until(lambda: _ended(task, step))
    return found


def _ended(task: FakeTask, step: base.StoredStep) -> base.Outcome | None:
    outcome = DEPLOY.poll_step(task, CLEAN, step)
    return outcome if outcome is base.DONE else None


def test_a_step_is_begun_once_and_waits_in_no_thread(
    task: FakeTask, machine: process.Agent
) -> None:
    assert DEPLOY.execute_clean_step(task, LINGER) is base.WAIT
    assert task.timers == [steps.SOON]
    # A conductor that died here runs the step again.
    task.keep(steps.COMMAND, None)
    assert DEPLOY.execute_clean_step(task, LINGER) is base.WAIT
    assert DEPLOY.poll_step(task, CLEAN, LINGER) is base.WAIT
    machine.flag()
    assert ended(task, LINGER) is base.DONE
    assert machine.ran() == ["linger"]
    assert task.recall(steps.COMMAND) is None


@pytest.mark.parametrize(
    ("taken", "pause"),
    [(0, steps.SOON), (4, 4.0), (100, steps.LONGEST), (3600, None)],
    ids=["just now", "seconds", "minutes", "an hour"],
)
def test_pauses_grow_until_heartbeats_alone_tell(
    task: FakeTask, taken: float, pause: float | None
) -> None:
    DEPLOY.execute_clean_step(task, LINGER)
    known = task.recall(steps.COMMAND)
    task.keep(steps.COMMAND, {**known, "since": known["since"] - taken})
    task.timers.clear()
    assert DEPLOY.poll_step(task, CLEAN, LINGER) is base.WAIT
    assert len(task.timers) == (pause is not None)
    if pause is not None:
        assert task.timers[0] == pytest.approx(pause, rel=0.5, abs=0.2)


def test_a_busy_agent_is_given_the_step_later(task: FakeTask, machine: process.Agent) -> None:
    assert DEPLOY.execute_deploy_step(task, LINGER) is base.WAIT
    assert DEPLOY.execute_clean_step(task, SCRUB) is base.WAIT
    known = task.recall(steps.COMMAND)
    assert known["id"] is None
    # The longer it is busy, the less often it is asked.
    for taken, pause in ((10, 10.0), (4000, steps.LONGEST)):
        task.keep(steps.COMMAND, {**known, "since": known["since"] - taken})
        assert DEPLOY.poll_step(task, CLEAN, SCRUB) is base.WAIT
        assert task.timers[-1] == pytest.approx(pause, rel=0.5)
    machine.flag()
    assert ended(task, SCRUB) is base.DONE
    assert machine.ran() == ["linger", "scrub"]


def test_an_agent_that_is_silent_is_asked_again_for_a_while_and_then_by_its_heartbeats(
    mortal: tuple[process.Agent, FakeTask],
) -> None:
    machine, task = mortal
    DEPLOY.execute_clean_step(task, LINGER)
    machine.kill()
    task.timers.clear()
    assert DEPLOY.poll_step(task, CLEAN, LINGER) is base.WAIT
    for _ in range(3):
        assert DEPLOY.poll_step(task, CLEAN, LINGER) is base.WAIT
    assert (task.timers, task.pauses) == ([2.0, 5.0], [])


def test_a_lost_step_fails_and_says_why(task: FakeTask) -> None:
    DEPLOY.execute_clean_step(task, SCRUB)
    task.keep(steps.COMMAND, {**task.recall(steps.COMMAND), "id": "no-such"})
    with pytest.raises(errors.AgentCommandFailed, match="was restarted during this step"):
        DEPLOY.poll_step(task, CLEAN, SCRUB)


def test_a_reboot_is_written_down_before_it_is_begun(
    task: FakeTask, machine: process.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a conductor that dies in the middle of it leaves it to be repeated."""
    boots: list[str] = []

    def boot(task: base.Task, mode: str = "deploy") -> None:
        boots.append(mode)
        task.forget_agent()

    monkeypatch.setattr(ramdisk, "boot", boot)
    agent = task.agent
    renew: base.StoredStep = {"interface": "deploy", "step": "renew", "reboot_requested": True}
    DEPLOY.execute_clean_step(task, renew)
    until(lambda: DEPLOY.poll_step(task, CLEAN, renew) and "boots" in task.recall(steps.COMMAND))
    assert (boots, task.timers[-1]) == ([], 0)
    # The step is run again by a conductor that finds it begun: nothing is given to the agent.
    assert DEPLOY.execute_clean_step(task, renew) is base.WAIT
    assert DEPLOY.poll_step(task, CLEAN, renew) is base.WAIT
    assert boots == ["deploy"]
    assert DEPLOY.poll_step(task, CLEAN, renew) is base.WAIT
    task.agent = agent
    assert DEPLOY.poll_step(task, CLEAN, renew) is base.DONE
    assert (boots, machine.ran()) == (["deploy"], ["renew"])


@pytest.mark.parametrize(
    ("state", "column", "step", "ends", "asks"),
    [
        ("clean wait", "clean_step", {}, True, False),
        ("clean wait", "clean_step", LINGER, False, True),
        ("clean wait", "clean_step", {"interface": "power", "step": "wait"}, True, False),
        ("clean wait", "clean_step", {"interface": "bios", "step": "x"}, False, False),
        ("wait call-back", "deploy_step", {"interface": "deploy", "step": "deploy"}, True, False),
        ("service wait", "service_step", LINGER, False, True),
        ("rescue wait", "clean_step", {}, False, True),
        ("inspect wait", "clean_step", {}, False, False),
    ],
    ids=["came", "agent's", "wait", "BMC's", "boots", "service", "rescue", "inspect"],
)
def test_heartbeat_ends_waits_by_state_and_step(
    state: str, column: str, step: Any, ends: bool, asks: bool
) -> None:
    task = FakeTask()
    columns = {"clean_step": {}, "deploy_step": {}, "service_step": {}, column: step}
    task.node = base.Node({**task.node.as_dict(), "provision_state": state, **columns})
    task.driver = dataclasses.replace(task.driver, deploy=DEPLOY)
    assert DEPLOY.heartbeat(task) is ends
    assert task.timers == ([0] if asks else [])


# A conductor died in the middle of an agent's step: may the next one run it again?

REPEATING_DEPLOY = base.StepKind.DEPLOY
LINGERING: base.StoredStep = {"step": "linger", "interface": "deploy", "priority": 0, "args": {}}


def test_a_step_that_its_agent_knows_is_not_run_twice(
    task: FakeTask, machine: process.Agent
) -> None:
    task.node.provision_state = "deploying"
    deploy = DirectDeploy()
    assert deploy.execute_deploy_step(task, LINGERING) is base.WAIT
    task.keep("agent_command", None)  # the conductor died before it was written down
    assert deploy.may_repeat(task, REPEATING_DEPLOY, LINGERING)
    assert deploy.execute_deploy_step(task, LINGERING) is base.WAIT
    machine.flag()
    until(lambda: deploy.poll_step(task, REPEATING_DEPLOY, LINGERING) is base.DONE)
    assert machine.ran() == ["linger"]


def test_a_step_of_an_agent_that_was_started_meanwhile_is_not_run_again(
    mortal: tuple[process.Agent, FakeTask],
) -> None:
    machine, task = mortal
    task.node.provision_state = "deploying"
    deploy = DirectDeploy()
    assert deploy.agent_steps(task, REPEATING_DEPLOY)
    assert deploy.execute_deploy_step(task, LINGERING) is base.WAIT
    until(lambda: machine.ran() == ["linger"])
    assert deploy.may_repeat(task, REPEATING_DEPLOY, LINGERING)
    machine.kill()
    assert not deploy.may_repeat(task, REPEATING_DEPLOY, LINGERING)
    machine.environment["MACHINE_KEEPS_TLS"] = "yes"
    machine.parameters["agent_token"] = task.agent.token if task.agent else ""
    machine.start()
    machine.answers()
    assert AgentClient(task).commands() == []
    assert not deploy.may_repeat(task, REPEATING_DEPLOY, LINGERING)


def test_a_step_of_the_interface_itself_is_judged_by_its_mark(task: FakeTask) -> None:
    deploy = DirectDeploy()
    for name, again in (("write_image", True), ("no such step", False)):
        step: base.StoredStep = {**LINGERING, "step": name}
        task.agent = None
        assert deploy.may_repeat(task, REPEATING_DEPLOY, step) is again


# What is read out of an agent's words: statuses, failures, and which command was ours.

ID = "run/3/0"


def command(known: str, status: str, name: str = "execute_clean_step", **more: Any) -> Any:
    return {"id": known, "command_name": name, "command_status": status, **more}


def ran(known: str, status: CommandStatus, step_id: str | None = None, **more: Any) -> Command:
    value = {"clean_step": {"step": "x", client.STEP_ID: step_id}} if step_id else {}
    return Command(known, more.pop("name", "execute_clean_step"), status, value, **more)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("RUNNING", CommandStatus.RUNNING),
        ("SUCCEEDED", CommandStatus.SUCCEEDED),
        ("FAILED", CommandStatus.FAILED),
        ("CLEAN_VERSION_MISMATCH", CommandStatus.CHANGED),
        ("VERSION_MISMATCH", CommandStatus.CHANGED),
    ],
    ids=str,
)
def test_statuses_of_the_wire(word: str, status: CommandStatus) -> None:
    assert client.read_command(command("1", word)).status is status


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        ({"type": "CleaningError", "message": "m", "details": "d"}, "CleaningError", "d"),
        ({"type": "CleaningError", "message": "m", "details": ""}, "CleaningError", "m"),
        ("plain", "", "plain"),
        (None, "", ""),
    ],
    ids=["details", "message", "text", "none"],
)
def test_details_say_more_than_the_message(error: Any, kind: str, reason: str) -> None:
    found = client.read_command(command("1", "FAILED", command_error=error))
    assert (found.kind, found.reason) == (kind, reason)


def test_a_very_long_reason_keeps_its_beginning_and_its_end() -> None:
    said = "mdadm: " + "x" * 5_000_000 + " no space left"
    for error in ({"type": "T" * 9999, "details": said}, said):
        found = client.read_command(command("1", "FAILED", command_error=error))
        assert found.reason.startswith("mdadm: x")
        assert found.reason.endswith("x no space left")
        assert len(found.reason) + len(found.kind) < 5000


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"commands": None},
        {"commands": ["x"]},
        {"commands": [{"id": 1}]},
        {"commands": [command("1", "DANCING")]},
        {"commands": [{**command("1", "RUNNING"), "command_status": ["RUNNING"]}]},
    ],
    ids=["null", "list", "no list", "text", "no name", "status", "odd status"],
)
def test_nonsense_is_told_as_such(document: Any) -> None:
    with pytest.raises(ValueError, match="command"):
        client.read_commands(document)


@pytest.mark.parametrize("broken", [None, {}, command("0", "DANCING")])
def test_broken_command_before_the_last_is_left_out(broken: Any) -> None:
    listed = client.read_commands({"commands": [broken, command("1", "RUNNING")]})
    assert [one.id for one in listed] == ["1"]


def test_extensions_of_a_name_are_left_out() -> None:
    assert client.read_command(command("1", "RUNNING", "clean.execute_clean_step")).name == (
        "execute_clean_step"
    )


LISTED = ran("0", CommandStatus.SUCCEEDED, name="get_clean_steps")


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ([], None),
        ([LISTED], None),
        ([LISTED, ran("1", CommandStatus.RUNNING)], "1"),
        ([LISTED, ran("1", CommandStatus.SUCCEEDED, ID)], "1"),
        ([LISTED, ran("1", CommandStatus.SUCCEEDED, "run/2/0")], None),
        ([LISTED, ran("1", CommandStatus.SUCCEEDED)], None),
        ([LISTED, ran("1", CommandStatus.FAILED)], None),
        ([ran("1", CommandStatus.SUCCEEDED, ID), LISTED], None),
        ([ran("1", CommandStatus.RUNNING, name="execute_deploy_step")], None),
    ],
    ids=[
        *("booted", "listed", "runs", "ended", "of the step before", "of nobody", "failed"),
        *("others since", "of another kind"),
    ],
)
def test_a_conductor_that_knows_nothing_finds_its_step(
    commands: list[Command], found: str | None
) -> None:
    begun = client.begun_command(commands, CLEAN, ID)
    assert (begun and begun.id) == found


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ([], None),
        ([ran("1", CommandStatus.RUNNING)], None),
        ([ran("1", CommandStatus.FAILED), ran("2", CommandStatus.RUNNING)], "2"),
        ([ran("1", CommandStatus.FAILED), ran("2", CommandStatus.FAILED)], "2"),
        ([ran("1", CommandStatus.FAILED), ran("2", CommandStatus.RUNNING, name="sync")], None),
    ],
    ids=["none", "the old one", "runs", "has failed already", "another"],
)
def test_an_order_whose_answer_was_lost_is_found_by_what_is_new(
    now: list[Command], found: str | None
) -> None:
    new = client.new_command([ran("1", CommandStatus.FAILED)], now, "execute_clean_step")
    assert (new and new.id) == found


# What agents are told of their nodes, read as the agent itself reads it.


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({"instance_info": {"capabilities": {"boot_mode": "uefi"}}}, "uefi"),
        ({"instance_info": {"capabilities": "boot_mode:bios"}, "boot_mode": "uefi"}, "bios"),
        ({"boot_mode": "bios"}, "bios"),
        ({}, "uefi"),
    ],
    ids=["of the instance", "of the instance, as text", "recorded", "by default"],
)
def test_the_partition_table_is_made_for_how_the_instance_boots(
    conf: cfg.ConfigOpts, values: dict[str, object], mode: str
) -> None:
    """The agent reads no capability of instance_info; without a word it goes by its ramdisk."""
    told = client.node_for_agent(FakeTask(node(**values)))
    assert {"agent_pin", "agent_heard_at", "generation"}.isdisjoint(told)
    assert told["driver_internal_info"]["deploy_boot_mode"] == mode


def test_capabilities_that_differ_keep_no_machine_from_being_cleaned(conf: cfg.ConfigOpts) -> None:
    two = {
        place: {"capabilities": f"boot_mode:{mode}"}
        for place, mode in (("instance_info", "uefi"), ("properties", "bios"))
    }
    assert (
        "deploy_boot_mode"
        not in client.node_for_agent(FakeTask(node(**two)))["driver_internal_info"]
    )


def test_no_secret_goes_to_an_agent(conf: cfg.ConfigOpts) -> None:
    secret = "hush-hush"
    told = client.node_for_agent(
        FakeTask(
            node(
                driver_info={"redfish_password": secret, "ipmi_hex_kg_key": secret},
                instance_info={"configdrive": {"user_data": secret}, "image_url": secret},
                driver_internal_info={
                    "agent_secret_token": secret,
                    "driver_notes": {"served_image": secret},
                    "agent_verify_ca": secret,
                },
            )
        )
    )
    assert secret.encode() not in orjson.dumps(told)


# A conductor that has lost a node asks its agent nothing more, whatever method it is in.


class Handler(http.server.BaseHTTPRequestHandler):
    """An agent that has done everything at once, but hangs up on every third request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer({"commands": []})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        done = {"id": "1", "command_name": "any", "command_status": "SUCCEEDED"}
        self._answer({**done, "command_result": {}, "command_error": None})

    def _answer(self, document: Any) -> None:
        self.server.log.append(f"{self.command} {self.path}")
        self.close_connection = True
        if len(self.server.log) % 3 == 0:
            return
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    """Where that agent listens; ``log`` has what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.log: list[str] = []


@pytest.fixture
def agent() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def _called(task: fake_task.FakeTask) -> None:
    for _ in range(4):
        AgentClient(task).call("clean.get_clean_steps", {})


def _begun(task: fake_task.FakeTask) -> None:
    for _ in range(4):
        with contextlib.suppress(errors.AgentUnreachable):
            AgentClient(task).start("clean.execute_clean_step", {})


def _restarted(task: fake_task.FakeTask) -> None:
    with contextlib.suppress(errors.AgentUnreachable):
        ramdisk.AgentPower().reboot(task)


ACTS: dict[str, expiring_locks.Act] = {
    "call": _called,
    "start": _begun,
    "restart": _restarted,
    "power": ramdisk.AgentPower().get_power_state,
    "result": lambda task: AgentClient(task).commands(),
}


@pytest.mark.parametrize("name", ACTS)
def test_nothing_is_asked_after_the_lock_is_lost(
    agent: Server, conf: cfg.ConfigOpts, name: str
) -> None:
    def make(answers: int) -> expiring_locks.LeasedTask:
        task = expiring_locks.LeasedTask(fake_task.node(), answers=answers)
        url = f"http://127.0.0.1:{agent.server_address[1]}"
        task.agent = base.Agent(url=url, token="t", verify_ca=None, version="13", heard_at=AT)
        return task

    assert expiring_locks.interrupt(ACTS[name], make, lambda: agent.log) >= 1
