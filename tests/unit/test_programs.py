"""Programs: their help, the modules that they leave out, and the test command's programs."""

from __future__ import annotations

import base64
import contextlib
import datetime
import importlib.metadata
import importlib.util
import os
import pathlib
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from ironic_lite.cmd import entry, status, supervise
from ironic_lite.core import clock, config, modules
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import conductors
from ironic_lite.db.tables import migrate
from ironic_lite.domain.examination import Status
from tests.support import database_rows

# Every console script answers --help without a library that it has no use for.

SCRIPTS = sorted(
    script.value
    for script in importlib.metadata.entry_points(group="console_scripts")
    if script.value.startswith("ironic_lite.")
)
_HELP = """
import importlib, sys
module, _, name = sys.argv[1].partition(":")
try:
    getattr(importlib.import_module(module), name)(["--help"])
except SystemExit as stop:
    assert not stop.code, stop.code
unwanted = ("eventlet", "greenlet", "kombu", "sushy", "alembic")
sys.exit(", ".join(name for name in unwanted if sys.modules.get(name)) or 0)
"""


def test_there_are_the_six_scripts() -> None:
    assert [script.removesuffix(":main") for script in SCRIPTS] == [
        f"ironic_lite.cmd.{name}"
        for name in ("all", "api", "conductor", "dbsync", "netboot", "status")
    ]


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_is_printed_and_nothing_big_loaded(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HELP, script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--config-file" in done.stdout
    assert "--version" in done.stdout


# Optional modules that a process leaves out.

_NAME = "colorsys"  # of the standard library; nothing imports it


def test_a_module_left_out_cannot_be_imported_until_the_end_of_the_block() -> None:
    sys.modules.pop(_NAME, None)
    with modules.left_out(_NAME), pytest.raises(ImportError):
        importlib.import_module(_NAME)
    assert importlib.util.find_spec(_NAME) is not None
    assert _NAME not in sys.modules


def test_a_loaded_module_stays() -> None:
    with modules.left_out("json"):
        assert importlib.import_module("json") is sys.modules["json"]
    assert sys.modules["json"] is not None


def test_the_api_loads_no_template_engine_it_can_do_without() -> None:
    program = """
import sys
from ironic_lite.cmd import api
from ironic_lite.core import config
from ironic_lite.api.http import listen_socket

conf = config.load("ironic-lite-api", ["--config-file", "/dev/null"])
conf.set_override("host_ip", "127.0.0.1", "api")
conf.set_override("port", 0, "api")
keeper = api.reserve(conf)
api.workers(conf, keeper, api.flags(conf))
assert "pecan" in sys.modules
print(*sorted({"jinja2", "pygments", "sushy", "cryptography", "pycdlib"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


# The test command brings the programs that tests start, or says what to install: no failure.

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "programs.sh"
SERVERS = {"dnsmasq": "", "nginx": "", "haproxy": "", "docker-registry": ""}
BROWSER = {"chromium-headless-shell": ""}
WHOLE = {"ipmitool": "", "ipmi_sim": "", "socat": "", "parted": "", "sgdisk": "", "qemu-img": ""}
WHOLE_BUT_BROWSER = WHOLE | SERVERS
WHOLE = WHOLE_BUT_BROWSER | BROWSER
PACKAGES = (
    *("ipmitool", "openipmi", "socat", "parted", "gdisk", "qemu-utils"),
    *("dnsmasq-base", "nginx-light", "haproxy", "docker-registry", "chromium-headless-shell"),
)
ALL = " ".join(PACKAGES)
ROOT = {"id": "echo 0"}
USER = {"id": "echo 1000"}
APT = {
    "chmod": 'exec /bin/chmod "$@"',
    "rm": 'exec /bin/rm "$@"',
    "timeout": 'shift\nexec "$@"',
    "apt-get": 'echo "$DEBIAN_FRONTEND $*" >> {log}',
}
BROKEN = {**APT, "apt-get": 'echo "$DEBIAN_FRONTEND $*" >> {log}\nexit 100'}


class Case(NamedTuple):
    """The programs of a machine, the packages that are installed, and what is said of the rest."""

    programs: dict[str, str]
    installed: tuple[str, ...] = ()
    said: str = ""


CASES = {
    "all is there": Case({**WHOLE, **ROOT, **APT}),
    "nothing is there": Case({**ROOT, **APT}, PACKAGES),
    "another Chromium is there": Case({**WHOLE_BUT_BROWSER, "chromium": "", **ROOT, **APT}),
    "one is there": Case({"ipmitool": "", **ROOT, **APT}, PACKAGES[1:]),
    "not root": Case({**USER, **APT}, said=f"{ALL}: not root; some tests are skipped."),
    "no Debian": Case(ROOT, said=f"{ALL}: no apt-get; some tests are skipped."),
    "no network": Case(
        {**ROOT, **BROKEN}, PACKAGES, f"{ALL}: apt-get failed; some tests are skipped."
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_missing_programs_are_installed_or_named(case: Case, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    log.touch()
    bin, policy = tmp_path / "bin", tmp_path / "policy"
    bin.mkdir()
    for name, does in case.programs.items():
        (bin / name).write_text(f"#!/bin/sh\n{does.replace('{log}', str(log))}\n")
        (bin / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", str(SCRIPT)],
        env={"PATH": str(bin), "POLICY": str(policy)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert not policy.exists()
    calls = [line for line in log.read_text().splitlines() if " install " in line]
    if case.installed:
        (call,) = calls
        assert call.startswith("noninteractive ")
        assert call.endswith(f"--no-install-recommends {' '.join(case.installed)}")
    else:
        assert log.read_text() == ""
    if case.said:
        assert case.said in done.stderr
        assert f"    apt-get install --no-install-recommends {ALL}" in done.stderr
    else:
        assert done.stderr == ""
    assert bool(done.stdout) is bool(case.installed)


# ``ironic-lite-status upgrade check``: its lines, and its exit status.

Check = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def check(
    sqlite_database: Database, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> Check:
    """Check with lines of [DEFAULT]; return the exit status, and what is printed."""

    def run(*lines: str) -> tuple[int, list[str]]:
        conf = config.load("test", _files(tmp_path, sqlite_database, *lines), conf=cfg.ConfigOpts())
        return status.check_upgrade(conf), capsys.readouterr().out.splitlines()

    return run


def _files(folder: pathlib.Path, database: Database, *lines: str) -> list[str]:
    path = folder / "ironic-lite.conf"
    said = "\n".join(lines)
    path.write_text(f"[DEFAULT]\n{said}\n[database]\nconnection = {database.url}\n")
    return ["--config-file", str(path)]


def test_the_program(sqlite_database: Database, tmp_path: pathlib.Path) -> None:
    asked = [*_files(tmp_path, sqlite_database), "upgrade", "check"]
    done = subprocess.run(
        [sys.executable, "-m", "ironic_lite.cmd.status", *asked],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(status.UPGRADE_CHECKS)


def test_files_prints_the_folder_of_units_and_examples(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ironic_lite.cmd.status", "files"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    folder = pathlib.Path(done.stdout.strip())
    assert (folder / "systemd/ironic-lite.service").is_file()
    assert (folder / "ironic-lite/ironic-lite.conf.sample").is_file()


def _add(database: Database, host: str, version: str, *, age: float = 0) -> None:
    at = clock.now() - datetime.timedelta(seconds=age)
    database.write(
        lambda conn: conductors.register(conn, host=host, group="", version=version, now=at)
    )


def test_all_is_well(sqlite_database: Database, check: Check) -> None:
    _add(sqlite_database, "one", config.version())
    _add(sqlite_database, "long gone", "0.0.1", age=3600)
    code, lines = check()
    assert (code, len(lines)) == (0, len(status.UPGRADE_CHECKS))
    assert all(line.startswith("Success ") for line in lines)


def test_conductors_of_another_version_are_named(sqlite_database: Database, check: Check) -> None:
    _add(sqlite_database, "old", "0.0.1")
    code, lines = check()
    assert code == 1
    assert next(line for line in lines if "old (0.0.1)" in line).startswith("Warning  conductors")
    code, lines = check("pin_release_version = 0.1")
    assert lines[-1] == "Success  pin_release_version: 0.1 is pinned while conductors are upgraded"


def test_a_pin_that_is_left_over_is_told(sqlite_database: Database, check: Check) -> None:
    _add(sqlite_database, "one", config.version())
    code, lines = check("pin_release_version = 0.1")
    assert (code, "remove the pin" in lines[-1]) == (1, True)


def test_a_deprecated_name_of_an_option_is_a_warning(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CONDUCTOR__CLEAN_NODES", "true")
    code, lines = check()
    assert (code, lines[-2]) == (
        1,
        "Warning  deprecations: [conductor]clean_nodes is deprecated since 1.0 and goes in 2.0: "
        "use [conductor]automated_clean_enable",
    )


def test_rows_that_are_left_are_told(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    change = migrate.DataMigration("capitals", "0999", lambda _: 3, lambda *_: 0)
    monkeypatch.setattr(migrate, "DATA_MIGRATIONS", (change,))
    code, lines = check()
    assert (code, "(capitals: 3)" in lines[1]) == (1, True)


def test_keys_that_are_needed_are_told(sqlite_database: Database, check: Check) -> None:
    old, new = (base64.urlsafe_b64encode(byte * 32).decode() for byte in (b"o", b"n"))
    with contextlib.closing(
        session.open_database(sqlite_database.url, encryption_keys=[old])
    ) as sealed:
        database_rows.add_node(sealed, driver_info={"password": "s"})
    code, lines = check()
    assert (code, lines[-1][:50]) == (2, "Failure  encryption keys: The database has values ")
    with contextlib.closing(
        session.open_database(sqlite_database.url, encryption_keys=[new, old])
    ) as both:
        subject = status.MachineSubject(config.CONF, None, None, contextlib.ExitStack(), [], both)
        (found,) = status.find_keys_in_use(subject)
    assert found.status is Status.OK
    assert found.text.startswith("older ones are still needed (")


def test_another_schema_ends_the_checks(sqlite_database: Database, check: Check) -> None:
    stamp = sa.text("UPDATE alembic_version SET version_num = '9999'")
    sqlite_database.write(lambda conn: conn.execute(stamp))
    code, lines = check()
    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith("Failure  database schema: The database ")
    assert "newer release" in lines[0]


# -- values of a configuration that was read again -------------------------------------------


def loaded(folder: pathlib.Path, text: str) -> cfg.ConfigOpts:
    file = folder / "some.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {folder}\n{text}")
    return config.load(config.PROJECT, [f"--config-file={file}"], conf=cfg.ConfigOpts())


WRITTEN = """debug = true
my_ip = 192.0.2.1
[database]
connection = postgresql+psycopg://u:a$$b$$$$c@h/n
[conductor]
step_deadline = deploy.erase_devices:60
image_blocked_networks = 192.0.2.0/24,2001:db8::/64
deploy_kernel_by_arch = x86_64:http://$my_ip/a$$b
[console]
port_range = 10000:10010
[inspector]
hooks = $default_hooks,parse-lldp
physical_network_cidr_map = 192.0.2.0/24:net
[pci_devices]
alias = {"vendor_id": "1", "product_id": "2", "name": "a$$b"}
[api]
unix_socket_mode = 0600
"""


def test_values_arrive_in_another_process_as_they_were_read(tmp_path: pathlib.Path) -> None:
    read = entry.read_again(loaded(tmp_path, WRITTEN))
    conf = loaded(tmp_path, "")
    assert entry.read_again(conf).values != read.values
    entry.replace_values(conf, pickle.loads(pickle.dumps(read)).values)
    assert entry.read_again(conf).values == read.values
    assert conf.database.connection == "postgresql+psycopg://u:a$b$$c@h/n"


def test_texts_of_libraries_are_compared_and_those_of_ironic_are_not(
    tmp_path: pathlib.Path,
) -> None:
    text = "log_date_format = %H\n[keystone_authtoken]\nauth_url = http://k\n"
    text += "[api]\nauth_strategy = keystone\nhost_ip = ::1\n[nova]\nauth_url = http://n\n"
    others = entry.read_again(loaded(tmp_path, text)).others
    assert set(others) == {("DEFAULT", "log_date_format"), ("keystone_authtoken", "auth_url")}


LOSING = """
import contextlib, os, sys, time
from ironic_lite.cmd import supervise
from ironic_lite.core import config

conf = config.load("ironic-lite", sys.argv[1:])
channel, (began, begin) = supervise.Channel(conf), os.pipe()
child = os.fork()
if not child:
    os.read(began, 1)
    channel.follow()
    while conf.conductor.max_concurrent_deploy != 8:
        time.sleep(0.01)
    os._exit(conf.conductor.max_concurrent_clean)
with contextlib.suppress(BlockingIOError):
    while True:
        channel.send()
conf.set_override("max_concurrent_clean", 7, "conductor")
try:
    channel.send()
except BlockingIOError:
    os.write(begin, b"!")
conf.set_override("max_concurrent_deploy", 8, "conductor")
while True:
    try:
        channel.send()
        break
    except BlockingIOError:
        time.sleep(0.01)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_lost_message_of_values_is_made_up_for_by_the_next(tmp_path: pathlib.Path) -> None:
    settings = tmp_path / "some.conf"
    settings.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    command = [sys.executable, "-c", LOSING, f"--config-file={settings}"]
    assert subprocess.run(command, timeout=60, check=False).returncode == 7


def test_unread_messages_to_an_earlier_child_keep_none_from_the_next(
    tmp_path: pathlib.Path,
) -> None:
    conf = loaded(tmp_path, "")
    channel = supervise.Channel(conf)
    with contextlib.suppress(BlockingIOError):
        while True:
            channel.send()
    channel.begin()
    channel.send()


class Replaced:
    """A child whose new processes end before they serve; its own one ends after some of them."""

    def __init__(self, name: str, most: int) -> None:
        self.name, self.most, self.tries = name, most, 0
        self.pid, self.former, self.kept = 1, 0, False
        self.ready = supervise.Ready()

    def replace(self) -> bool:
        self.tries += 1
        self.kept = True
        if self.tries == self.most:
            self.pid = 0
        return False


def test_each_child_has_its_own_count_of_tries(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervise, "LONGEST_PAUSE", 0.0)
    one, two = Replaced("one", 4), Replaced("two", 99)
    renewal = supervise.Renewal([one, two], lambda: False, 60.0)  # type: ignore[list-item]
    renewal.begin()
    for _ in range(99):
        renewal.step()
    assert (one.tries, two.tries) == (4, 10)
    assert "two is not replaced after 10 tries" in caplog.text


def test_options_of_libraries_are_compared_before_and_after_their_use(
    tmp_path: pathlib.Path,
) -> None:
    conf = loaded(tmp_path, "conn_pool_ttl = 60\n")
    before = entry.read_again(conf).others
    conf.register_opts([cfg.IntOpt("conn_pool_ttl")])  # as oslo.messaging does
    assert entry.read_again(conf).others == before == {("DEFAULT", "conn_pool_ttl"): ["60"]}


CRASHING = """
import sys
from ironic_lite.cmd import status
from ironic_lite.domain.examination import Check

def find(subject):
    raise {what}

check = Check("options", "", find, "")
status.STARTS_OF["ironic-lite-api"] = [check]
status.write_reading(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (CRASHING.format(what="ValueError('hunter2')"), "options: the check itself has failed"),
        (
            CRASHING.replace("status.STARTS_OF", "del status.MachineSubject\nstatus.STARTS_OF"),
            "its checks end by a fault: NameError",
        ),
    ],
)
def test_crash_of_a_check_refuses_the_configuration(
    tmp_path: pathlib.Path, script: str, reason: str
) -> None:
    settings, answer = tmp_path / "some.conf", tmp_path / "answer"
    settings.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    with answer.open("wb") as out:
        words = [str(out.fileno()), config.API, f"--config-file={settings}"]
        done = subprocess.run(
            [sys.executable, "-c", script, *words], pass_fds=[out.fileno()], check=False
        )
    assert done.returncode == 0
    _, _, faults = pickle.loads(answer.read_bytes())
    assert faults == [reason]


def test_second_request_during_a_reading_is_served_after_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(entry.LOG, "handlers", [caplog.handler])
    reader, end = tmp_path / "reader", tmp_path / "end"
    reader.write_text(f"#!/bin/sh\nwhile [ ! -e {end} ]; do sleep 0.01; done\nexit 1\n")
    reader.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(reader))
    reload = entry.Reload(loaded(tmp_path, ""), config.API, lambda _: [])
    reload.request()
    reload.step()
    for _ in range(2):  # a signal that comes while it reads may be merged with the next one
        reload.request()
        reload.step()
    end.touch()
    while reload.step() < 1:
        time.sleep(0.01)
    assert caplog.text.count("ended with status 1") == 2


def test_program_whose_reader_fails_keeps_its_values(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(entry.LOG, "handlers", [caplog.handler])
    used: list[entry.Values] = []

    def use(values: entry.Values) -> list[entry.Values]:
        used.append(values)
        return []

    reload = entry.Reload(loaded(tmp_path, ""), config.API, use)
    reload.request()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    reload.step()
    assert "no process can read it: No such file or directory" in caplog.text
    monkeypatch.setattr(sys, "executable", "/bin/false")
    reload.request()
    while reload.step() < 1:
        pass
    assert "the process that has read it ended with status 1" in caplog.text
    assert used == []
