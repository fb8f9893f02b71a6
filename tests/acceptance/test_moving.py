"""The page on moving from Ironic is true: its commands are run as written, in their order.

The source is the database of a real Ironic 39. Ironic itself is not there: for its API stands the
trial of the page, which shows the same nodes.
"""

from __future__ import annotations

import pathlib
import re
import shlex
import sqlite3
import subprocess
from collections.abc import Iterator

import pytest

from tests.support import docs_pages, service
from tests.support.ports import free_port
from tests.support.service import PATIENCE, SCRIPTS, Program

pytestmark = pytest.mark.feature("doctor", "move_in")

PAGE = docs_pages.DOCS / "moving-from-ironic.rst"
DUMP = service.ROOT / "tests/move_in/dumps/ironic-39.0.0.sql"
THEIRS, OURS, IRONIC = "/etc/ironic/", "/etc/ironic-lite/", "https://ironic.example.org"
ELSEWHERE = ("systemctl disable --now ironic-api", "systemctl enable --now ironic-api")
"""Commands of programs that are not here."""
_BLOCK = re.compile(r"^\.\. code-block:: console\n\n((?:   .*\n|\n)+)", re.MULTILINE)
_AT_REST = (
    "UPDATE nodes SET reservation = NULL",
    # Addresses that the service does not contact, so that a BMC is silent at once.
    "UPDATE nodes SET driver_info = replace(driver_info, '192.0.2.', '127.0.0.')",
    "UPDATE nodes SET driver_info = '{}' WHERE driver LIKE 'fake%'",
)
_SETTINGS = """\
[DEFAULT]
host = {name}
state_path = {folder}/{name}
enabled_hardware_types = fake-hardware,ipmi,redfish
enabled_console_interfaces = fake,no-console,ipmitool-socat
[api]
port = {port}
[conductor]
sync_power_state_interval = 1
[database]
encryption_keys = pJfbVZ7gJ4e0CnnhbZ8Gx0lM5sHC8Zx9VtNTLe4zTqU=
"""


def commands() -> Iterator[tuple[str, str]]:
    """Yield each command of the page, and the last line that the page shows for it."""
    for block in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for found in re.finditer(r"^   [#$] (.*)\n((?:   [^#$].*\n)?)", block, re.MULTILINE):
            yield found[1], found[2].strip()


def plain(line: str) -> str:
    """Return a line without what differs from run to run."""
    line = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|https?://[^ ]+", "X", line)
    return re.sub(r"\d+", "N", line.partition(" in /")[0])


class Site:
    """A folder with Ironic's configuration and database, and two services of ours."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.urls: dict[str, str] = {}
        self.running: dict[str, Program] = {}
        self.variables: dict[str, str] = {}
        self.shown = ""
        file = folder / "ironic.sqlite"
        with sqlite3.connect(file) as database:
            database.executescript(DUMP.read_text(encoding="utf-8"))
            for statement in _AT_REST:
                database.execute(statement)
        database.close()
        text = f"[DEFAULT]\nhost = c1\n[database]\nconnection = sqlite:///{file}\n"
        (folder / "ironic.conf").write_text(text, encoding="utf-8")
        for name in ("trial", "ironic-lite"):
            port = free_port()
            self.urls[name] = f"http://127.0.0.1:{port}"
            text = _SETTINGS.format(name=name, folder=folder, port=port)
            (folder / f"{name}.conf").write_text(text, encoding="utf-8")

    def start(self, name: str) -> None:
        command = [str(SCRIPTS / "ironic-lite"), "--config-file", str(self.folder / f"{name}.conf")]
        program = Program(command, self.folder / f"{name}.log", warm=True)
        self.running[name] = program
        service.until(lambda: program.pids(service.CONDUCTOR_UP), "the conductor")
        service.until(lambda: program.pids(service.API_UP), "the API")

    def stop(self, name: str) -> None:
        if name in self.running:
            self.running.pop(name).stop()

    def run(self, command: str) -> tuple[int, str]:
        """Run a command of the page; return its exit status and its last line."""
        first = command.split(maxsplit=1)[0]
        if command.startswith("systemctl"):
            assert "ironic-lite" in command
            (self.start if "enable" in command else self.stop)("ironic-lite")
            return 0, ""
        if first == "export":
            words = (word.partition("=") for word in command.split()[1:])
            self.variables |= {name: value for name, _, value in words}
            return 0, ""
        if first == "ironic-lite":
            self.start("trial")
            return 0, ""
        return self._run_program(command)

    def _run_program(self, command: str) -> tuple[int, str]:
        named = command.replace(OURS, f"{self.folder}/").replace(THEIRS, f"{self.folder}/")
        named = named.replace(THEIRS[:-1], str(self.folder)).replace(IRONIC, self.urls["trial"])
        words = shlex.split(named)
        if "check-ironic-conf" not in words and "--config-file" not in words:
            words[1:1] = ["--config-file", str(self.folder / "ironic-lite.conf")]
        done = subprocess.run(
            [str(SCRIPTS / words[0]), *words[1:]],
            cwd=self.folder,
            env=service.environment(**self.variables),
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        print(command, done.returncode, done.stdout[-3000:], done.stderr, sep="\n")
        self.shown = done.stdout
        return done.returncode, (done.stdout.splitlines() or [""])[-1]


@pytest.fixture
def site() -> Iterator[Site]:
    """A site whose paths are short enough for sockets."""
    with service.short_folder() as folder:
        yield Site(folder)


ALLOWED = {
    "check-ironic-conf": (0, 1),
    "config": (0, 1),
    "export-ironic": (0, 1),
    "import-ironic": (0, 1),
    "release": (0, 1),
}
"""Exit statuses of commands that may find something; the page says which ones are accepted."""


def test_commands_of_the_page_do_what_it_says(site: Site) -> None:
    try:
        for command, last in commands():
            words = command.split()
            if command.startswith(ELSEWHERE) or words[0] in ("ironic-status", "curl"):
                continue
            if "observe" in words and not site.running:
                site.start("ironic-lite")  # the step before is another way back, and stops it
            status, shown = site.run(command)
            if command.endswith("--ironic before.jsonl"):
                # The trial has events of its own import, which Ironic has not.
                assert re.findall(r"^ +\d+ (\S+)$", site.shown, re.MULTILINE) == ["nodes/history"]
                continue
            wanted = next((ALLOWED[word] for word in words if word in ALLOWED), (0,))
            assert status in wanted, command
            beginning = plain(last).removesuffix("...")
            assert plain(shown).startswith(beginning), command
            if "--save" in command:
                site.stop("trial")  # as the page drops it before the import
    finally:
        for name in tuple(site.running):
            site.running.pop(name).clear()
    assert any("import-ironic" in command for command, _ in commands())
