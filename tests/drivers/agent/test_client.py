"""The client against a real agent: its orders are carried out once, and nobody else gets one."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import http.server
import pathlib
import ssl
import threading
import urllib.parse
from typing import Any, ClassVar

import psutil
import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.controllers import provisioning
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.agent import client as agent_client
from ironic_lite.drivers.agent import logs
from ironic_lite.drivers.agent.client import LIMIT, AgentClient, CommandStatus
from tests.emulators.agent import process
from tests.support import certificates, private_servers
from tests.support.fake_task import FakeTask
from tests.support.real_agent import until

CLEAN = base.StepKind.CLEAN
LINGER = {"step": "linger", "interface": "deploy", "args": {}}


def execute(task: FakeTask, step: dict[str, Any], **more: Any) -> agent_client.Command:
    params = {
        "step": {**step, agent_client.STEP_ID: task.step_id},
        **agent_client.node_and_ports(task),
        **more,
    }
    return AgentClient(task).start("clean.execute_clean_step", params)


def ended(task: FakeTask, command: str) -> agent_client.Command:
    def look() -> agent_client.Command | None:
        found = AgentClient(task).result(command)
        assert found is not None
        return found if found.status is not CommandStatus.RUNNING else None

    found = until(look)
    assert isinstance(found, agent_client.Command)
    return found


def test_a_real_agent_lists_its_steps_and_runs_one(task: FakeTask, machine: process.Agent) -> None:
    client = AgentClient(task)
    assert client.commands() == []
    listed = client.call("clean.get_clean_steps", agent_client.node_and_ports(task))
    assert "FileMachine" in listed["clean_steps"]
    versions = listed["hardware_manager_version"]
    assert versions["FileMachine"] == "1"
    scrub = {"step": "scrub", "interface": "deploy", "args": {}}
    begun = execute(task, scrub, clean_version=versions)
    found = ended(task, begun.id)
    assert found.value["clean_result"] == {"scrubbed": 1}
    assert agent_client.begun_command(client.commands(), CLEAN, task.step_id) == found
    assert agent_client.begun_command(client.commands(), CLEAN, "another/1/0") is None
    assert machine.ran() == ["scrub"]


def test_clients_of_one_agent_share_a_connection_that_outlives_them(
    task: FakeTask, machine: process.Agent
) -> None:
    agent_client.KEPT.close()
    assert task.agent is not None
    port = urllib.parse.urlsplit(task.agent.url).port

    def mine() -> set[int]:
        found = psutil.Process().net_connections("tcp")
        return {one.laddr[1] for one in found if one.raddr and one.raddr[1] == port}

    AgentClient(task).commands()
    first = mine()
    for _ in range(3):
        AgentClient(task).commands()
    assert (mine(), len(first)) == (first, 1)
    execute(task, LINGER)
    assert mine() == first
    machine.flag()
    other = FakeTask(task.node)
    other.agent = dataclasses.replace(task.agent, verify_ca=f"{task.agent.verify_ca}\n")
    AgentClient(other).commands()
    assert len(mine()) == 2
    agent_client.KEPT.close()
    assert mine() == set()


def test_one_command_runs_at_a_time(task: FakeTask, machine: process.Agent) -> None:
    begun = execute(task, LINGER)
    assert begun.status is CommandStatus.RUNNING
    with pytest.raises(errors.AgentBusy, match="execute_clean_step"):
        execute(task, LINGER)
    assert agent_client.begun_command(AgentClient(task).commands(), CLEAN, task.step_id) == begun
    machine.flag()
    assert ended(task, begun.id).status is CommandStatus.SUCCEEDED
    assert machine.ran() == ["linger"]


def test_a_failure_says_what_the_hardware_manager_said(task: FakeTask) -> None:
    begun = execute(task, {"step": "break_down", "args": {"words": "no fans"}, "interface": "raid"})
    with pytest.raises(errors.AgentCommandFailed, match=r"no fans.*CleaningError"):
        AgentClient(task).value(ended(task, begun.id))


def test_another_version_is_no_failure_of_the_step(task: FakeTask, machine: process.Agent) -> None:
    begun = execute(task, LINGER, clean_version={"FileMachine": "0"})
    with pytest.raises(errors.AgentChanged):
        AgentClient(task).value(ended(task, begun.id))
    assert machine.ran() == []


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("clean.nothing", {}, "Unknown command"),
        ("nothing.at_all", {}, "Extension"),
    ],
    ids=["command", "extension"],
)
def test_unknown_command_is_refused_by_the_agent(
    task: FakeTask, name: str, params: dict[str, Any], says: str
) -> None:
    with pytest.raises(errors.HardwareError, match=says):
        AgentClient(task).call(name, params)


def test_a_wrong_token_is_refused_and_never_told(task: FakeTask) -> None:
    assert task.agent is not None
    secret = "s" * 43
    task.agent = dataclasses.replace(task.agent, token=secret)
    with pytest.raises(errors.AgentRefused, match="401") as why:
        AgentClient(task).commands()
    assert secret not in str(why.value) + repr(why.value.facts) + repr(task.agent)


def test_an_address_that_cannot_be_asked_is_told_without_the_token(
    task: FakeTask, conf: cfg.ConfigOpts
) -> None:
    """Nobody listens there."""
    assert task.agent is not None
    conf.set_override("max_command_attempts", 1, "agent")
    task.agent = dataclasses.replace(task.agent, url="https://127.0.0.1:1")
    with pytest.raises(errors.AgentUnreachable, match="Connection refused") as why:
        AgentClient(task).commands()
    assert task.agent.token not in str(why.value) + repr(why.value.facts)


def test_an_agent_without_an_answer_makes_its_machine_silent_until_the_next(
    task: FakeTask, conf: cfg.ConfigOpts
) -> None:
    assert task.agent is not None
    conf.set_override("max_command_attempts", 1, "agent")
    good = task.agent
    task.agent = dataclasses.replace(good, url="https://127.0.0.1:1")
    with pytest.raises(errors.AgentUnreachable):
        AgentClient(task).commands()
    assert task.node.uuid in deadline.SILENT
    task.agent = good
    AgentClient(task).commands()
    assert task.node.uuid not in deadline.SILENT


def test_only_the_agents_own_certificate_is_believed(
    mortal: tuple[process.Agent, FakeTask],
) -> None:
    """Another agent of the same address, which has not given this certificate, gets no token."""
    machine, task = mortal
    machine.kill()
    machine.start()
    machine.answers()
    with pytest.raises(errors.AgentRefused, match="certificate differs from that"):
        AgentClient(task).commands()


class _Commands(http.server.BaseHTTPRequestHandler):
    """An agent without commands; ``asked`` are the requests that reached it."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"commands": []}')

    def log_message(self, *_args: object) -> None:
        """Write nothing."""


@pytest.mark.parametrize(("since", "days"), [(300, 700), (-400, -1)], ids=["early", "expired"])
def test_pinned_certificate_is_trusted_whatever_the_clocks_say(
    task: FakeTask, tmp_path: pathlib.Path, since: float, days: float
) -> None:
    pem, key = certificates.write(tmp_path, days, since=since)
    other, _ = certificates.write(tmp_path, days, "other", since=since)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(pem, key)
    _Commands.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Commands) as server:
        server.socket = served.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert task.agent is not None
        url = f"https://127.0.0.1:{server.server_port}"
        for text in (pem.read_text(), f"{other.read_text()}{pem.read_text()}"):
            task.agent = dataclasses.replace(task.agent, url=url, verify_ca=text)
            assert AgentClient(task).commands() == []
        assert len(_Commands.asked) == 2
        task.agent = dataclasses.replace(task.agent, verify_ca=other.read_text())
        with pytest.raises(errors.AgentRefused, match="certificate differs from that"):
            AgentClient(task).commands()
        assert len(_Commands.asked) == 2
        server.shutdown()


@pytest.mark.parametrize("pem", [None, "", "nonsense", "é"])
def test_without_a_certificate_nothing_is_sent(task: FakeTask, pem: str | None) -> None:
    assert task.agent is not None
    task.agent = dataclasses.replace(task.agent, verify_ca=pem)
    with pytest.raises(errors.AgentRefused, match="certificate"):
        AgentClient(task)


def test_refused_connection_is_retried(
    mortal: tuple[process.Agent, FakeTask], conf: cfg.ConfigOpts
) -> None:
    machine, task = mortal
    machine.kill()
    conf.set_override("max_command_attempts", 3, "agent")
    with pytest.raises(errors.AgentUnreachable, match="does not answer") as why:
        AgentClient(task).commands()
    assert len(task.pauses) == 2
    assert why.value.retryable
    assert "t" * 43 not in str(why.value)


def test_before_the_first_heartbeat_there_is_nobody(conf: cfg.ConfigOpts) -> None:
    with pytest.raises(errors.AgentUnreachable, match="no heartbeat"):
        AgentClient(FakeTask())


def test_an_answer_without_an_end_ends(task: FakeTask, conf: cfg.ConfigOpts) -> None:
    """A command that is waited for longer than it may take is lost, and the agent goes on."""
    conf.set_override("max_command_attempts", 1, "agent")
    with pytest.raises(errors.AgentUnreachable):
        AgentClient(task).call(
            "clean.execute_clean_step",
            {"step": LINGER, **agent_client.node_and_ports(task)},
            timeout=0.5,
        )


def test_the_largest_configuration_drive_comes_back_with_its_step() -> None:
    """Or the step that wrote it would never be seen to end."""
    assert LIMIT > provisioning.BODY_LIMIT * 1024 + 8 * 1024**2


def test_logs_are_kept_where_only_we_can_read_them(
    task: FakeTask, conf: cfg.ConfigOpts, tmp_path: pathlib.Path
) -> None:
    conf.set_override("deploy_logs_local_path", str(tmp_path / "logs"), "agent")
    path = logs.collect(task)
    assert path is not None
    assert path.parent == tmp_path / "logs"
    assert path.name.startswith(task.node.uuid)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    conf.set_override("deploy_logs_collect", "never", "agent")
    logs.failed(task)
    assert len(list(path.parent.iterdir())) == 1


def test_full_disk_keeps_no_part_of_logs_and_its_last_space(
    conf: cfg.ConfigOpts, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The database may be on this disk, too."""
    folder = tmp_path / "logs"
    folder.mkdir()
    conf.set_override("deploy_logs_local_path", str(folder), "agent")
    conf.set_override("deploy_logs_collect", "always", "agent")
    task = FakeTask()
    mib = 1024 * 1024
    with contextlib.ExitStack() as made:
        try:
            made.enter_context(private_servers.small_disk(folder, 4))
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        for size in (4 * mib + 1, 4 * mib - 8192):
            packed = base64.b64encode(b"x" * size).decode()
            logs.sent(task, packed, failed=True)
            assert list(folder.iterdir()) == []
            assert f"no room for {folder}/{task.node.uuid}_" in caplog.text
            assert "Free some space" in caplog.text
            caplog.clear()
        logs.sent(task, base64.b64encode(b"x" * mib).decode(), failed=True)
        (file,) = folder.iterdir()
        assert file.stat().st_size == mib


@pytest.mark.parametrize("logs_of_it", ["é", "a", 7])
def test_logs_that_are_none_are_no_further_failure(
    task: FakeTask, monkeypatch: pytest.MonkeyPatch, logs_of_it: object
) -> None:
    monkeypatch.setattr(AgentClient, "call", lambda *_: {"system_logs": logs_of_it})
    assert logs.collect(task) is None
