"""Serial consoles: what is run, at which port, and that nothing of it is ever left over."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from ironic_lite import errors
from ironic_lite.core import config, options
from ironic_lite.drivers.ipmi import console, info, tool
from tests.support.bmc_tasks import BmcTask, emulated, task_with
from tests.support.ports import free_port

Program = Callable[[str], pathlib.Path]
INFO = {"ipmi_address": "192.0.2.7", "ipmi_username": "root", "ipmi_password": "secret"}
ECHO = """
case "$*" in
    *"sol activate") printf '%s\\n' "$@" > activate; echo ready; exec cat ;;
esac
echo "$*" >> commands
"""
PATIENCE = 15.0


@pytest.fixture
def consoles() -> Iterator[console.IpmiSocatConsole]:
    """The interface; whatever it started is ended."""
    if shutil.which(console.PROGRAM) is None:
        pytest.skip("NOT TESTED: socat not installed; make test installs it as root on Debian")
    interface = console.IpmiSocatConsole()
    yield interface
    interface.close()


@pytest.fixture(autouse=True)
def settings() -> Iterator[Callable[..., None]]:
    """A function that sets options of [console]."""
    given: set[str] = set()

    def put(**values: Any) -> None:
        for name, value in values.items():
            given.add(name)
            config.CONF.set_override(name, value, group="console")

    put(subprocess_timeout=PATIENCE)
    yield put
    for name in given:
        config.CONF.clear_override(name, group="console")


def until(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("never became true")


def task(**driver_info: Any) -> BmcTask:
    return task_with({**INFO, "ipmi_terminal_port": free_port(), **driver_info})


def port(consoles: console.IpmiSocatConsole, task: BmcTask) -> int:
    told = consoles.get_console(task)
    assert told["type"] == "socat"
    host, _, found = told["url"].removeprefix("tcp://").rpartition(":")
    assert host == "127.0.0.1"
    return int(found)


def talk(where: int, *words: bytes) -> bytes:
    """Connect, read until all these words have come, and return what has."""
    with socket.create_connection(("127.0.0.1", where), PATIENCE) as line:
        heard = b""
        for word in words:
            while word not in heard:
                chunk = line.recv(4096)
                assert chunk, heard
                heard += chunk
            line.sendall(b"hello\r")
        return heard


def group(leader: int) -> list[psutil.Process]:
    """Return what lives of a group of processes."""
    found = []
    for one in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getpgid(one.pid) == leader and one.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def gone(leader: int) -> None:
    until(lambda: not group(leader))


def ended(program: console.Program) -> None:
    until(lambda: not program.running)


def lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def leader(consoles: console.IpmiSocatConsole, task: BmcTask) -> int:
    return consoles.proxies()[task.node.uuid].pid


# -- the command lines -----------------------------------------------------------------------


def test_socat_listens_at_one_address_for_one_connection_at_a_time() -> None:
    assert console.line("127.0.0.1", 10000, 600) == [
        "socat",
        "-d",
        "-d",
        "-T",
        "600",
        "TCP4-LISTEN:10000,bind=127.0.0.1,reuseaddr,fork,max-children=1",
        "SYSTEM:set -f; IFS=; eval exec $IRONIC_LITE_TERMINAL,pty,rawer,stderr",
    ]


def test_socat_listens_at_ipv6_and_for_ever() -> None:
    line = console.line("2001:db8::1", 1, 0)
    assert line[3] == "TCP6-LISTEN:1,bind=[2001:db8::1],reuseaddr,fork,max-children=1"
    assert "-T" not in line


def test_ipmitool_is_the_serial_port_and_says_nothing_of_its_own() -> None:
    node = info.parse(INFO)
    line = tool.terminal(node, cipher=17)
    assert line[-4:] == ["-C", "17", "sol", "activate"]
    assert "-E" in line
    assert "-v" not in line
    assert "secret" not in " ".join(line)
    assert tool.command_line(node, ("sol", "activate"), cipher=17) == [line[0], "-v", *line[1:]]


# -- the port --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "before", "expected"),
    [
        (7, None, [7]),
        (7, 21, [7]),
        (None, None, [20, 21, 22, 40]),
        (None, 22, [22, 20, 21, 40]),
        (None, 23, [20, 21, 22, 40]),
        (None, "22", [20, 21, 22, 40]),
    ],
    ids=["told", "told before", "any", "as before", "no more", "nonsense"],
)
def test_console_tries_the_ports_of_its_range(
    wanted: int | None, before: object, expected: list[int]
) -> None:
    ranges = [range(20, 23), range(40, 41), range(21, 22)]
    assert list(console.candidates(wanted, before, ranges)) == expected


def test_a_range_of_ports_has_both_ends() -> None:
    assert options.PortRange()("10000:10002") == range(10000, 10003)
    assert options.PortRange()("5:5") == range(5, 6)


@pytest.mark.parametrize(
    "text", ["", "10000", "2:1", "0:5", "1:65536", "a:b", "1:2:3", "-1:3", "1-3"]
)
def test_invalid_range_of_ports_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="of the form 10000:19999"):
        options.PortRange()(text)


# -- validation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver_info", "kind", "named"),
    [
        ({"ipmi_terminal_port": None}, errors.MissingParameter, "driver_info/ipmi_terminal_port"),
        ({"ipmi_terminal_port": "x"}, errors.InvalidParameter, "driver_info/ipmi_terminal_port"),
        ({"ipmi_protocol_version": "1.5"}, errors.InvalidParameter, "ipmi_protocol_version"),
        ({"ipmi_address": None}, errors.MissingParameter, "driver_info/ipmi_address"),
    ],
    ids=["no port", "bad port", "old version", "no address"],
)
def test_settings_that_cannot_be_used(
    consoles: console.IpmiSocatConsole, driver_info: dict[str, Any], kind: type[Any], named: str
) -> None:
    given = {**INFO, "ipmi_terminal_port": 5, **driver_info}
    node = task_with({key: value for key, value in given.items() if value is not None})
    for act in (consoles.validate, consoles.start_console):
        with pytest.raises(kind, match=named):
            act(node)


def test_a_range_stands_in_for_the_port(
    consoles: console.IpmiSocatConsole, settings: Callable[..., None]
) -> None:
    settings(port_range=[range(5, 6)])
    consoles.validate(task_with(INFO))


@pytest.mark.parametrize("missing", ["socat", "ipmitool"])
def test_a_program_that_is_not_installed_is_named(
    missing: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in {"socat", "ipmitool"} - {missing}:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    interface = console.IpmiSocatConsole()
    assert f"lacks the program {missing}" in caplog.text
    with pytest.raises(errors.LibraryMissing, match=f"lacks the program {missing}"):
        interface.validate(task())


# -- started and stopped ---------------------------------------------------------------------


def test_console_carries_input_to_the_machine_and_output_back(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    folder = program(ECHO)
    node = task()
    consoles.start_console(node)
    where = port(consoles, node)
    assert where == node.node.driver_info["ipmi_terminal_port"]
    assert b"hello" in talk(where, b"ready", b"hello")
    assert b"hello" in talk(where, b"ready", b"hello")  # and again, for the next one
    said = (folder / "commands").read_text().splitlines()
    assert [one.partition(" -E ")[2] for one in said] == ["power status", "sol deactivate"]
    consoles.stop_console(node)
    assert consoles.proxies() == {}
    with pytest.raises(OSError, match="refused"):
        talk(where)
    with pytest.raises(errors.Unavailable, match="Retry later"):
        consoles.get_console(node)


def test_no_secret_is_on_a_command_line_and_no_word_is_changed(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    folder = program(ECHO)
    name = "a  '*\"$(x),:\\"
    node = task(ipmi_username=name, ipmi_password="s3cret; rm", ipmi_address="::1")
    consoles.start_console(node)
    leading = leader(consoles, node)
    with socket.create_connection(("127.0.0.1", port(consoles, node)), PATIENCE) as line:
        assert b"ready" in line.recv(100)
        lines = [" ".join(one.cmdline()) for one in group(leading)]
    assert len(lines) > 3
    assert not [one for one in lines if "s3cret" in one]
    words = (folder / "activate").read_text().splitlines()
    assert words[words.index("-U") + 1] == name
    assert words[words.index("-H") + 1] == "::1"
    assert words == tool.terminal(info.parse(node.node.driver_info))[1:]


def test_a_new_start_replaces_the_old_one_at_the_same_port(
    consoles: console.IpmiSocatConsole, program: Program, settings: Callable[..., None]
) -> None:
    program(ECHO)
    first, second = free_port(), free_port()
    settings(port_range=[range(first, first + 1), range(second, second + 1)])
    one, other = task_with(INFO), task_with(INFO)
    consoles.start_console(one)
    consoles.start_console(other)
    assert (port(consoles, one), port(consoles, other)) == (first, second)
    old = leader(consoles, other)
    consoles.let_go(one.node.uuid)
    consoles.start_console(other)
    assert port(consoles, other) == second  # the one it had, though the first is free
    gone(old)
    consoles.start_console(one)
    with pytest.raises(errors.Unavailable, match=r"All ports of \[console\]port_range are taken"):
        consoles.start_console(task_with(INFO))


def test_a_port_that_others_have_is_told_of(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    program(ECHO)
    node = task()
    where = ("127.0.0.1", node.node.driver_info["ipmi_terminal_port"])
    with socket.create_server(where), pytest.raises(errors.Unavailable, match=f"Port {where[1]}"):
        consoles.start_console(node)
    assert consoles.proxies() == {}
    consoles.start_console(node)


def test_an_address_that_the_machine_has_not_is_told_of(
    consoles: console.IpmiSocatConsole, program: Program, settings: Callable[..., None]
) -> None:
    program(ECHO)
    settings(socat_address="192.0.2.1")
    with pytest.raises(errors.HardwareError, match=r"\[console\]socat_address 192.0.2.1"):
        consoles.start_console(task())


def test_console_listens_on_ipv6(
    consoles: console.IpmiSocatConsole, program: Program, settings: Callable[..., None]
) -> None:
    with contextlib.closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    program(ECHO)
    settings(socat_address="::1")
    node = task()
    consoles.start_console(node)
    where = node.node.driver_info["ipmi_terminal_port"]
    assert consoles.get_console(node)["url"] == f"tcp://[::1]:{where}"
    with socket.create_connection(("::1", where), PATIENCE) as line:
        assert b"ready" in line.recv(100)


def test_a_bmc_that_refuses_the_login_starts_nothing(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    program('echo "RAKP 2 HMAC is invalid" >&2; exit 1')
    with pytest.raises(errors.BmcAccessDenied):
        consoles.start_console(task())
    assert consoles.proxies() == {}


def test_no_open_session_is_no_fault(consoles: console.IpmiSocatConsole, program: Program) -> None:
    refuse = 'case "$*" in *deactivate) echo "SOL payload already de-activated" >&2; exit 1;; esac'
    program(f"{refuse}\n{ECHO}")
    node = task()
    consoles.start_console(node)
    talk(port(consoles, node), b"ready")
    consoles.stop_console(node)


# -- socat, played by a script ---------------------------------------------------------------


def play(folder: pathlib.Path, script: str) -> None:
    path = folder / "socat"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


SAYS = 'say() { echo "2026/11/22 08:00:00 socat[7] $*" >&2; }\n'
LISTENS = SAYS + "say N listening on AF=2 127.0.0.1:1\n"


def test_a_program_that_ends_at_once_says_why(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    play(program(ECHO), SAYS + "say W a warning; say E no such thing; say N exiting; exit 1")
    with pytest.raises(errors.HardwareError, match=r"socat at TCP port \d+: no such thing"):
        consoles.start_console(task())
    assert consoles._ports == {}


def test_a_program_that_never_listens_is_killed(
    consoles: console.IpmiSocatConsole, program: Program, settings: Callable[..., None]
) -> None:
    folder = program(ECHO)
    settings(subprocess_timeout=1)
    play(folder, f"echo $$ > {folder}/pid; sleep 600 & sleep 600")
    with pytest.raises(errors.HardwareError, match="did not listen within 1 s"):
        consoles.start_console(task())
    pid = int((folder / "pid").read_text())
    until(lambda: not lives(pid))


def test_a_port_that_was_taken_meanwhile_gives_way_to_the_next(
    consoles: console.IpmiSocatConsole, program: Program, settings: Callable[..., None]
) -> None:
    ports = [free_port(), free_port()]
    settings(port_range=[range(one, one + 1) for one in ports])
    used = f'case "$*" in *:{ports[0]},*) say E "bind: Address already in use"; exit 1 ;; esac\n'
    play(program(ECHO), f"{SAYS}{used}{LISTENS}sleep 600")
    node = task_with(INFO)
    consoles.start_console(node)
    assert port(consoles, node) == ports[1]
    assert node.recall(console.NOTE) == ports[1]


def test_a_program_that_ends_later_is_seen_with_its_last_words(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    folder = program(ECHO)
    play(folder, f"{SAYS}say E a fault\n{LISTENS}read _ < {folder}/end; say E the end")
    os.mkfifo(folder / "end")
    node = task()
    consoles.start_console(node)
    (proxy,) = consoles.proxies().values()
    assert (proxy.running, proxy.said) == (True, "")
    (folder / "end").write_text("\n")
    ended(proxy)
    until(lambda: proxy.said == "the end" and proxy.lived == proxy.lived > 0)
    assert consoles.proxies() == {node.node.uuid: proxy}
    with pytest.raises(errors.Unavailable):
        consoles.get_console(node)
    consoles.let_go(node.node.uuid, proxy)
    assert consoles.proxies() == {}


def test_only_the_program_that_is_meant_is_let_go(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    play(program(ECHO), f"{LISTENS}sleep 600")
    node = task()
    consoles.start_console(node)
    (old,) = consoles.proxies().values()
    consoles.start_console(node)
    consoles.let_go(node.node.uuid, old)
    consoles.let_go("another", None)
    (new,) = consoles.proxies().values()
    assert (new is not old, new.running, old.running) == (True, True, False)


# -- nothing is left over --------------------------------------------------------------------


def test_console_ends_whole_if_one_of_its_processes_is_killed(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    program(ECHO)
    for which in range(2):
        node = task()
        consoles.start_console(node)
        leading = leader(consoles, node)
        with socket.create_connection(("127.0.0.1", port(consoles, node)), PATIENCE) as line:
            assert b"ready" in line.recv(100)
            found = [one.pid for one in group(leading) if one.name() == "socat"]
            os.kill(leading if which else min(found), signal.SIGKILL)
            ended(consoles.proxies()[node.node.uuid])
            consoles.let_go(node.node.uuid)
            gone(leading)


def test_one_thread_listens_to_all_and_ends_with_the_last(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    play(program(ECHO), f"{LISTENS}sleep 600")

    def threads() -> int:
        return sum(one.name == "consoles" for one in threading.enumerate())

    until(lambda: threads() == 0)  # those of other tests
    for _ in range(5):
        consoles.start_console(task())
    assert threads() == 1
    leaders = [one.pid for one in consoles.proxies().values()]
    consoles.close()
    for each in leaders:
        gone(each)
    until(lambda: threads() == 0)
    consoles.start_console(task())  # and another one when there are some again


CONDUCTOR = """
import json, sys, time
from ironic_lite.core import config
from ironic_lite.drivers.ipmi import console
from tests.support.bmc_tasks import task_with
config.register(config.CONF)
config.CONF([], project="ironic-lite", default_config_files=[], default_config_dirs=[])
consoles, task = console.IpmiSocatConsole(), task_with(json.loads(sys.argv[1]))
consoles.start_console(task)
print(consoles.proxies()[task.node.uuid].pid, flush=True)
time.sleep(600)
"""


def test_a_killed_conductor_leaves_nothing(
    consoles: console.IpmiSocatConsole, program: Program
) -> None:
    program(ECHO)
    node = task()
    line = [sys.executable, "-c", CONDUCTOR, json.dumps(node.node.driver_info)]
    root = pathlib.Path(__file__).parents[3]
    with subprocess.Popen(line, stdout=subprocess.PIPE, cwd=root) as conductor:
        assert conductor.stdout is not None
        leading = int(conductor.stdout.readline())
        where = ("127.0.0.1", node.node.driver_info["ipmi_terminal_port"])
        with socket.create_connection(where, PATIENCE) as talking:
            assert b"ready" in talking.recv(100)
            assert len(group(leading)) > 3
            conductor.kill()
            conductor.wait()
            gone(leading)
    consoles.start_console(node)  # at the same port


# -- a BMC that nobody here wrote ------------------------------------------------------------


def test_serial_over_lan(
    consoles: console.IpmiSocatConsole, tmp_path: pathlib.Path, settings: Callable[..., None]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as machine:
        machine.settimeout(PATIENCE)
        with emulated(tmp_path / "bmc", serial=machine.getsockname()[1]) as bmc:
            wire, _ = machine.accept()
            wire.settimeout(PATIENCE)
            settings(port_range=[range(one := free_port(), one + 1)])
            node = task_with(bmc.driver_info())
            consoles.start_console(node)
            with wire, socket.create_connection(("127.0.0.1", one), PATIENCE) as line:
                _heard(line, b"SOL Session operational")
                wire.sendall(b"login: ")
                _heard(line, b"login: ")
                line.sendall(b"root\r")
                _heard(wire, b"root\r")
                # Somebody whose conductor has died left a session open: a start ends it.
                again = console.IpmiSocatConsole()
                settings(port_range=[range(two := free_port(), two + 1)])
                again.start_console(node)
                with socket.create_connection(("127.0.0.1", two), PATIENCE) as other:
                    _heard(other, b"SOL Session operational")
                    wire.sendall(b"again: ")
                    _heard(other, b"again: ")
                again.close()
            consoles.stop_console(node)
            with pytest.raises(errors.HardwareError, match="already de-activated"):
                tool.run(node, ("sol", "deactivate"))


def _heard(line: socket.socket, wanted: bytes) -> None:
    heard = b""
    while wanted not in heard:
        chunk = line.recv(4096)
        assert chunk, heard
        heard += chunk
