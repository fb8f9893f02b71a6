"""Starts: bad surroundings, bad configurations, and what systemd learns."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from ironic_lite.core import notify
from tests.emulators import redfish
from tests.support import prefork, private_servers, service
from tests.support.ports import free_port
from tests.support.service import API_UP, CONDUCTOR_UP, Program, Service

# Starts in bad surroundings: one plain line, the right status, and no way in before it works.

PROGRAMS = ("ironic-lite", "ironic-lite-api", "ironic-lite-conductor")
STATE = "state_path = "


@pytest.fixture
def fresh() -> Iterator[Service]:
    """A configuration with nothing started yet."""
    with service.service(migrated=False) as found:
        yield found


def line(program: Program, status: int) -> str:
    """Return the only line of a program that ended with a status."""
    assert program.process.wait(service.PATIENCE) == status
    (found,) = program.lines()
    return found


def replace(found: Service, old: str, new: str) -> None:
    """Change a line of the configuration."""
    text = found.settings.read_text(encoding="utf-8")
    assert old in text
    found.settings.write_text(text.replace(old, new), encoding="utf-8")


# -- the first answer ------------------------------------------------------------------------


def test_client_may_enroll_after_the_first_answer() -> None:
    for _ in range(3):
        with service.service() as found:
            found.start()
            service.until(functools.partial(found.get, "/"), "the first answer")
            found.create("first")


def test_an_api_without_any_conductor_asks_to_come_back(fresh: Service) -> None:
    assert fresh.start("ironic-lite-dbsync", "upgrade").process.wait(service.PATIENCE) == 0
    fresh.start("ironic-lite-api")
    service.until(lambda: fresh.get("/v1/nodes"), "the API")
    answer = fresh.ask("POST", "/v1/nodes", {"driver": "fake-hardware"})
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert fresh.ask("GET", "/readyz").status_code == 503
    conductor = fresh.start("ironic-lite-conductor")
    service.until(lambda: conductor.pids(CONDUCTOR_UP), "a conductor")
    fresh.create("first")
    answer = fresh.ask("POST", "/v1/nodes", {"driver": "redfis"})
    assert answer.status_code == 400, "the living conductors do not have it"


def test_of_two_services_that_start_at_once_one_gets_the_address(fresh: Service) -> None:
    with service.service() as other:
        replace(other, f"port = {other.port}", f"port = {fresh.port}")
        both = [found.start() for found in (fresh, other)]
        service.until(lambda: any(one.process.poll() is not None for one in both), "the end of one")
        refused, served = sorted(both, key=lambda one: one.process.poll() is None)
        assert "Address already in use" in line(refused, 1)
        service.until(lambda: fresh.get("/"), "the API")
        assert served.process.poll() is None


# -- what cannot be opened -------------------------------------------------------------------


@pytest.mark.parametrize("script", PROGRAMS)
def test_a_state_folder_that_cannot_be_made_is_status_1(fresh: Service, script: str) -> None:
    replace(fresh, f"{STATE}{fresh.folder}/state", f"{STATE}/dev/null/state")
    said = line(fresh.start(script), 1)
    assert said.startswith(f"{script}: [DEFAULT]state_path: cannot make /dev/null/state: Not a d")


def test_an_address_that_is_not_there_yet_is_status_1(fresh: Service) -> None:
    replace(fresh, "[api]\n", "[api]\nhost = 192.0.2.77\nallow_unauthenticated_bind = true\n")
    said = fresh.start()
    assert said.process.wait(service.PATIENCE) == 1
    assert "[api]host, port: cannot listen on 192.0.2.77 port" in said.said()
    assert "Traceback" not in said.said()


def test_a_database_that_cannot_be_opened_is_status_1_and_one_that_is_none_status_2(
    fresh: Service,
) -> None:
    state = fresh.folder / "state"
    (state / "ironic-lite.sqlite").mkdir(parents=True)
    said = line(fresh.start(), 1)
    assert "unable to open database file; check the folder, its rights and its free space" in said
    (state / "ironic-lite.sqlite").rmdir()
    (state / "ironic-lite.sqlite").write_text("no database, but a text" * 100)
    assert "file is not a database" in line(fresh.start(), 2)


@contextlib.contextmanager
def disk(folder: pathlib.Path, mib: int) -> Iterator[None]:
    folder.mkdir()
    try:
        with private_servers.small_disk(folder, mib):
            yield
    except private_servers.Lacking as why:
        pytest.skip(f"NOT TESTED: {why}")


def test_a_disk_that_is_full_at_the_start_is_status_1() -> None:
    with service.short_folder() as folder, disk(folder / "state", 1):
        with (folder / "state" / "ballast").open("wb", buffering=0) as ballast:
            for size in (1 << 16, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while ballast.write(b"x" * size):
                        pass
        found = Service(folder)
        try:
            said = line(found.start(), 1)
        finally:
            found.clear()
    assert "full" in said


# -- later -----------------------------------------------------------------------------------


def test_a_port_that_is_taken_while_a_conductor_is_away_ends_nothing() -> None:
    port = free_port()
    with service.service(f"[deploy]\nhttp_host = {service.HOST}\nhttp_port = {port}\n") as found:
        program = found.start()
        found.up()
        (conductor,) = program.pids(CONDUCTOR_UP)
        with contextlib.ExitStack() as taken:
            os.kill(conductor, signal.SIGKILL)
            door = taken.enter_context(socket.socket())
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

            def grab() -> bool:
                with contextlib.suppress(OSError):
                    door.bind((service.HOST, port))
                    door.listen()
                    return True
                return False

            if not grab():
                # The conductor was quicker; it is tried once more with its next life.
                os.kill(
                    service.until(lambda: program.pids(CONDUCTOR_UP)[1:], "it")[0], signal.SIGKILL
                )
                service.until(grab, "the port")
            service.until(lambda: "cannot listen on this address" in program.said(), "a refusal")
            assert found.get("/v1/nodes") == {"nodes": []}
        before = len(program.pids(CONDUCTOR_UP))
        service.until(lambda: len(program.pids(CONDUCTOR_UP)) > before, "a conductor")
        found.create("later")
        assert len(program.pids(API_UP)) == 1
        assert program.stop() == 0


def test_a_state_folder_that_is_removed_is_told_and_no_traceback(fresh: Service) -> None:
    program = fresh.start()
    fresh.up()
    fresh.create("kept")
    (fresh.folder / "state").rename(fresh.folder / "gone")
    answer = fresh.ask("POST", "/v1/nodes", {"driver": "fake-hardware"})
    assert answer.status_code == 503, answer.text
    assert program.stop() in {0, 1}
    assert "Traceback" not in program.said()


# A configuration that cannot be used is one line and exit status 2; what may pass is status 1.

# Words of the line, and what is wrong: {folder} holds what `folder` makes.
BAD = {
    "a port that is no number": ("[api]port", "[api]\nport = many\n"),
    "an unknown name": ("did you mean port?", "[api]\nprot = 6385\n"),
    "no configuration": ("test.conf", "what is this\n"),
    "a state path below a file": ("state_path", "[DEFAULT]\nstate_path = {folder}/file/state\n"),
    "a state path too long for a socket": (
        "bytes shorter",
        f"[DEFAULT]\nstate_path = {{folder}}/{'long' * 30}\n",
    ),
    "a log nobody can write": ("log", "[DEFAULT]\nlog_file = {folder}/nowhere/at/all.log\n"),
    "a journal without its library": ("systemd-python", "[DEFAULT]\nuse_journal = true\n"),
    "a facility of syslog that is none": (
        "syslog facility must be one of",
        "[DEFAULT]\nuse_syslog = true\nsyslog_log_facility = steam\n",
    ),
    "an address of somebody else": (
        "Cannot assign requested address",
        "[api]\nhost = 192.0.2.1\nallow_unauthenticated_bind = true\n",
    ),
    "an address for all without a login": ("[api]host", "[api]\nhost = 0.0.0.0\n"),
    "a certificate without its key": ("ssl_key_file", "[api]\nssl_cert_file = {folder}/bmc.pem\n"),
    "a certificate that is none": (
        "ssl_cert_file",
        "[api]\nssl_cert_file = {folder}/file\nssl_key_file = {folder}/bmc.key\n",
    ),
    "a key of another certificate": (
        "KEY_VALUES_MISMATCH",
        "[api]\nssl_cert_file = {folder}/bmc.pem\nssl_key_file = {folder}/other/bmc.key\n",
    ),
    "a key with a password": (
        "unencrypted key",
        "[api]\nssl_cert_file = {folder}/bmc.pem\nssl_key_file = {folder}/locked.key\n",
    ),
    "a database of an unknown kind": ("[database]connection", "[database]\nconnection = x://y/z\n"),
    "a database that is no URL": ("not a database URL", "[database]\nconnection = nonsense\n"),
    "a database that is a folder": (
        "unable to open database file",
        "[database]\nconnection = sqlite:///{folder}\n",
    ),
    "a database that is some other file": (
        "file is not a database",
        "[database]\nconnection = sqlite:///{folder}/file\n",
    ),
    "a key of the database that is none": (
        "1 is no Fernet key",
        "[database]\nencryption_keys = nonsense\n",
    ),
    "a password file that is not there": (
        "none: No such file or directory; htpasswd -cB",
        "[DEFAULT]\nhttp_basic_auth_user_file = {folder}/none\n[api]\nauth_strategy = http_basic\n",
    ),
    "tokens of nobody": ("auth_type = password, auth_url", "[api]\nauth_strategy = keystone\n"),
    "an unknown transport": ("transport_url", "[DEFAULT]\ntransport_url = pigeon://\n"),
    "a transport that is no URL": ("transport_url", "[DEFAULT]\ntransport_url = pigeon\n"),
    "an unknown hardware type": (
        "enabled_hardware_types",
        "[DEFAULT]\nenabled_hardware_types = fake-hardware,steam\n",
    ),
    "an unknown interface": (
        "enabled_power_interfaces",
        "[DEFAULT]\nenabled_power_interfaces = steam\n",
    ),
    "a default that is not enabled": (
        "default_power_interface",
        "[DEFAULT]\ndefault_power_interface = steam\n",
    ),
    "a file server on every address": (
        "[deploy]http_url",
        "[deploy]\nhttp_port = 8089\nhttp_host = 0.0.0.0\n",
    ),
    "a priority that is none": (
        "clean_step_priority_override",
        "[conductor]\nclean_step_priority_override = first\n",
    ),
}

MAY_PASS = {
    "a state path below a file",
    "a log nobody can write",
    "an address of somebody else",
    "a database that is a folder",
}
"""Refusals of the system: the same configuration may be usable later, so the status is 1."""


@pytest.fixture(scope="module")
def folder() -> Iterator[pathlib.Path]:
    """Certificates, keys, and a file that is none of these."""
    with service.short_folder() as path:
        (path / "file").write_text("A line of text, long enough to be no empty database.\n" * 20)
        (path / "other").mkdir()
        _, key = redfish.certificate(path)
        redfish.certificate(path / "other")
        command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:secret"]
        command += ["-out", str(path / "locked.key")]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        yield path


def warm(script: str, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end that finds its modules loaded; test_wheel starts all without."""
    command = [service.SCRIPTS / script, *words]
    return prefork.run(command, env=service.environment(), timeout=service.PATIENCE)


@pytest.mark.parametrize("fault", BAD)
def test_a_start_that_cannot_be_is_one_line_and_a_status(folder: pathlib.Path, fault: str) -> None:
    words, more = BAD[fault]
    status = 1 if fault in MAY_PASS else 2
    with service.service(more.format(folder=folder)) as found:
        done = warm("ironic-lite", "--config-file", found.settings)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    # Drivers are judged by the conductor, which names itself.
    assert done.stderr.startswith(("ironic-lite: ", "conductor: "))
    assert words in done.stderr


KEPT_TRYING = {
    "a file server at an address of somebody else": (
        "Cannot assign requested address",
        "[deploy]\nhttp_port = 8089\nhttp_host = 192.0.2.1\n",
    ),
}
"""Refusals with which a conductor is started again and again."""


@pytest.mark.parametrize("fault", [*BAD, *KEPT_TRYING])
def test_what_stops_a_start_is_found_without_one(folder: pathlib.Path, fault: str) -> None:
    words, more = {**BAD, **KEPT_TRYING}[fault]
    with service.service(more.format(folder=folder)) as found:
        done = warm("ironic-lite-status", "--config-file", found.settings, "config")
    assert done.returncode == 2 or (fault in MAY_PASS and done.returncode == 1)
    assert words in done.stdout + done.stderr


def test_a_sound_configuration_is_checked_without_a_trace() -> None:
    with service.service("") as found:
        assert (
            warm("ironic-lite-dbsync", "--config-file", found.settings, "upgrade").returncode == 0
        )
        before = sorted(found.settings.parent.rglob("*"))
        done = warm("ironic-lite-status", "--config-file", found.settings, "config")
        assert sorted(found.settings.parent.rglob("*")) == before
    assert (done.returncode, done.stderr) == (1, "")  # a warning of what real machines need
    assert not [line for line in done.stdout.splitlines() if line.startswith(("failed", "unkn"))]


@pytest.mark.parametrize("command", ["config", "doctor", "upgrade check"])
def test_checks_make_no_folder_and_no_log(command: str) -> None:
    with service.short_folder() as folder:
        settings = folder / "ironic-lite.conf"
        (folder / "log").mkdir()
        settings.write_text(
            f"[DEFAULT]\nstate_path = {folder}/state\nlog_file = {folder}/log/some.log\n"
        )
        before = sorted(folder.rglob("*"))
        done = warm("ironic-lite-status", "--config-file", settings, *command.split())
        assert sorted(folder.rglob("*")) == before
    assert done.returncode in (1, 2)
    assert f"the file {folder}/state/ironic-lite.sqlite does not exist" in done.stdout + done.stderr


def test_check_reads_the_files_that_the_programs_read() -> None:
    with service.short_folder() as home:
        place = home / ".ironic-lite"
        place.mkdir()
        (place / "ironic-lite.conf").write_text(f"[DEFAULT]\nstate_path = {home}/state\n")

        def check(*words: str) -> subprocess.CompletedProcess[str]:
            command = [str(service.SCRIPTS / "ironic-lite-status"), "config", *words]
            environment = service.environment(HOME=str(home))
            return prefork.run(command, env=environment, timeout=service.PATIENCE)

        assert "Cannot assign" not in check().stdout
        elsewhere = "[api]\nhost = 192.0.2.1\nallow_unauthenticated_bind = true\n"
        (place / "ironic-lite-api.conf").write_text(elsewhere)
        (place / "ironic-lite-conductor.conf").write_text("[conductor]\nprocesses = 2\n")
        done = check()
        assert done.returncode == 2
        failed = [line for line in done.stdout.splitlines() if line.startswith("failed")]
        api, conductor = (f"this machine, ironic-lite-{name}: " for name in ("api", "conductor"))
        assert any(api in line and "Cannot assign requested address" in line for line in failed)
        assert conductor in done.stdout
        assert f"{conductor}API" not in done.stdout
        alone = check("--program", "ironic-lite-conductor").stdout
        assert conductor in alone
        assert api not in alone
        (place / "ironic-lite-conductor.conf").write_text("[conductor]\nprocesess = 2\n")
        done = check()
        assert (done.returncode, "did you mean processes?" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "script", ["ironic-lite", "ironic-lite-api", "ironic-lite-conductor", "ironic-lite-dbsync"]
)
def test_every_program_refuses_in_the_same_way(script: str) -> None:
    done = warm(script, "--config-file", "/no/such/file", *(["version"] if "db" in script else []))
    assert done.returncode == 2
    assert done.stderr.startswith(f"{script}: cannot read the configuration: ")
    assert done.stderr.endswith(": /no/such/file\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "script", ["ironic-lite", "ironic-lite-api", "ironic-lite-conductor", "ironic-lite-dbsync"]
)
def test_every_program_tells_what_it_is_for_and_its_version(script: str) -> None:
    helped, version = warm(script, "--help"), warm(script, "--version")
    assert (helped.returncode, version.returncode) == (0, 0)
    assert "ironic-lite.conf.sample" in helped.stdout
    assert "--config-file" in helped.stdout
    assert version.stdout.strip()[0].isdigit()


@pytest.mark.parametrize("script", ["ironic-lite", "ironic-lite-api", "ironic-lite-conductor"])
def test_a_database_server_that_is_away_is_one_line_without_the_password(script: str) -> None:
    more = "[database]\nconnection = postgresql://user:hidden@127.0.0.1:1/none\n"
    with service.service(more) as found:
        done = warm(script, "--config-file", found.settings)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "does not answer" in done.stderr
    assert "hidden" not in done.stderr


@pytest.mark.parametrize("script", ["ironic-lite-api", "ironic-lite-conductor"])
@pytest.mark.parametrize("missing", [True, False])
def test_database_without_tables_is_one_line_that_says_what_to_do(
    script: str, missing: bool
) -> None:
    with service.service() as found:
        file = found.folder / "state" / "ironic-lite.sqlite"
        file.parent.mkdir()
        if not missing:
            file.touch(mode=0o600)
        done = warm(script, "--config-file", found.settings)
        assert file.exists() is not missing
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "run ironic-lite-dbsync upgrade" in done.stderr
    assert ("does not exist" in done.stderr) is missing


def test_dbsync_makes_a_database_and_tells_of_it() -> None:
    with service.service() as found:

        def sync(*words: str) -> str:
            done = warm("ironic-lite-dbsync", "--config-file", found.settings, *words)
            assert done.returncode == 0, done.stderr
            return done.stdout

        refused = warm("ironic-lite-dbsync", "--config-file", found.settings, "revision")
        assert "run ironic-lite-dbsync upgrade" in refused.stderr
        file = found.folder / "state" / "ironic-lite.sqlite"
        file.parent.mkdir(exist_ok=True)
        file.touch(mode=0o600)
        assert sync("revision") == "none\n"
        assert "this database none" in sync("version")
        head = sync("upgrade").strip()
        assert sync("upgrade", "--revision", head).strip() == head
        assert sync("revision").strip() == head
        assert f"newest schema {head}" in sync("version")
        assert f"this database {head}" in sync("version")
        assert sync("history").splitlines()[-1].startswith(f"* {head}  ")
        assert "nodes: 0 of 0 rows rewritten" in sync("reencrypt")


def test_dbsync_refuses_what_it_does_not_know() -> None:
    with service.service() as found:
        unknown = warm(
            "ironic-lite-dbsync", "--config-file", found.settings, "upgrade", "--revision", "9999"
        )
        nothing = warm("ironic-lite-dbsync", "--config-file", found.settings)
    assert unknown.returncode == 1
    assert "9999" in unknown.stderr
    assert unknown.stderr.count("\n") == 1
    assert nothing.returncode == 2
    assert "Traceback" not in nothing.stderr


@pytest.mark.parametrize("program", ["all", "api"])
def test_a_missing_library_is_one_line(program: str) -> None:
    code = (
        "import sys; sys.modules['granian'] = None\n"
        f"from ironic_lite.cmd import {program} as script; script.main(sys.argv[1:])"
    )
    with service.service() as found:
        warm("ironic-lite-dbsync", "--config-file", found.settings, "upgrade")
        done = subprocess.run(
            [sys.executable, "-c", code, "--config-file", found.settings],
            capture_output=True,
            text=True,
            timeout=service.PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "granian is missing" in done.stderr


# Units of ``Type=notify``: systemd learns when a program has started, and when it needs time.


class Manager:
    """Stands for systemd: receives the messages of programs."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.address = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(self.address)

    def receive(self, seconds: float = service.PATIENCE) -> tuple[int, dict[str, str]]:
        """Return the sender's process and the next message."""
        self._socket.settimeout(seconds)
        text, [(_, _, credentials)], *_ = self._socket.recvmsg(4096, 4096)
        lines = text.decode().splitlines()
        pid = int.from_bytes(credentials[:4], "little")
        return pid, dict(line.split("=", 1) for line in lines)

    def until(self, key: str) -> tuple[int, dict[str, str]]:
        """Return the next message with a key."""
        while key not in (found := self.receive())[1]:
            pass
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


@pytest.fixture
def notified() -> Iterator[Service]:
    """A configuration whose programs are started anew, as by systemd."""
    with service.service(warm=False) as found:
        yield found


@pytest.fixture
def manager(notified: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    with contextlib.closing(Manager(notified.folder)) as found:
        monkeypatch.setenv("NOTIFY_SOCKET", found.address)
        yield found


def test_service_that_has_started_accepts_the_first_node(
    notified: Service, manager: Manager
) -> None:
    program = notified.start()
    assert "EXTEND_TIMEOUT_USEC" in manager.receive()[1]  # it migrates
    pid, found = manager.until("READY")
    assert (pid, found) == (program.pid, {"READY": "1", "STATUS": f"serving {notified.url}"})
    assert notified.ask("GET", "/readyz").status_code == 200
    notified.create("first")
    program.process.send_signal(signal.SIGTERM)
    assert manager.until("STOPPING")[0] == program.pid
    assert program.process.wait(service.PATIENCE) == 0


@pytest.mark.parametrize("name", ["ironic-lite", "ironic-lite-conductor"])
def test_watchdog_hears_of_the_main_loop_until_it_hangs(
    name: str, notified: Service, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = notified.start("ironic-lite-dbsync", "upgrade")
    assert first.process.wait(service.PATIENCE) == 0
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    program = notified.start(name)
    manager.until("READY")
    for _ in range(5):
        assert manager.until("WATCHDOG") == (program.pid, {"WATCHDOG": "1"})
    program.process.send_signal(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        for _ in range(100):  # those sent before
            manager.receive(seconds=2.0)
    program.process.send_signal(signal.SIGCONT)
    assert manager.until("WATCHDOG")[0] == program.pid


def test_watchdog_of_another_process_is_not_ours(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    notify.begin()
    try:
        notify.alive()
        notify.stopping()
        assert "STOPPING" in manager.receive()[1]
        assert notify.pause(60.0) == 60.0
    finally:
        notify.begin()


def test_long_work_asks_for_time_until_it_ends(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "EXTEND_SECONDS", 0.05)
    notify.begin()
    try:
        with notify.extending("migrating"):
            found = [manager.receive()[1] for _ in range(3)]
        assert found == [{"EXTEND_TIMEOUT_USEC": "150000", "STATUS": "migrating"}] * 3
        notify.ready("serving")
        assert manager.until("READY")[1]["STATUS"] == "serving"
    finally:
        notify.begin()  # no service manager any more


@pytest.mark.parametrize("workers", [1, 3])
def test_api_alone_has_started_when_all_workers_listen(
    workers: int, notified: Service, manager: Manager
) -> None:
    text = notified.settings.read_text(encoding="utf-8")
    with_more = text.replace("[api]\n", f"[api]\nworkers = {workers}\n")
    notified.settings.write_text(with_more, encoding="utf-8")
    first = notified.start("ironic-lite-dbsync", "upgrade")
    assert first.process.wait(service.PATIENCE) == 0
    program = notified.start("ironic-lite-api")
    assert manager.until("READY")[0] == program.pid
    assert notified.ask("GET", "/v1").status_code == 200
    listening = [
        one.laddr.port
        for process in psutil.Process(program.pid).children()
        for one in process.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    ]
    assert listening == [notified.port] * workers


@pytest.mark.parametrize("processes", [1, 2])
def test_conductor_alone_has_started_when_its_processes_are_registered(
    processes: int, notified: Service, manager: Manager
) -> None:
    text = notified.settings.read_text(encoding="utf-8")
    with_more = text.replace("[conductor]\n", f"[conductor]\nprocesses = {processes}\n")
    notified.settings.write_text(with_more, encoding="utf-8")
    first = notified.start("ironic-lite-dbsync", "upgrade")
    assert first.process.wait(service.PATIENCE) == 0
    program = notified.start("ironic-lite-conductor")
    pid, found = manager.until("READY")
    assert (pid, "registered" in found["STATUS"]) == (program.pid, True)
    path = notified.folder / "state" / "ironic-lite.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        (count,) = database.execute("SELECT count(*) FROM conductors WHERE online").fetchone()
    assert count == processes
    service.until(lambda: len(program.pids(CONDUCTOR_UP)) == processes, "all processes")
    program.process.send_signal(signal.SIGTERM)
    assert manager.until("STOPPING")[0] == program.pid
    assert program.process.wait(service.PATIENCE) == 0
