"""Real Ironic and this service side by side, with the same nodes in them."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import sqlite3
import subprocess
import sys
import time
from typing import Any

from tests.support.ports import free_port

Json = dict[str, Any]

KEPT = frozenset(
    {"alembic_version", "conductors", "conductor_hardware_interfaces", "hardware_interfaces"}
)
"""Tables that say who is alive; all others are set back after a request that changes something."""
ELSEWHERE = "elsewhere"
"""The holder of the lock of the locked node."""
PATIENCE = 120.0
HEADER = "X-OpenStack-Ironic-API-Version"

_KINDS = ("console", "inspect", "raid", "bios", "firmware", "vendor", "rescue")
_COMMON = """
[DEFAULT]
state_path = {folder}
host = compared
{interfaces}
auth_strategy = keystone
[api]
host_ip = 127.0.0.1
port = {port}
auth_strategy = keystone
[database]
connection = sqlite:///{folder}/compared.sqlite
[conductor]
node_locked_retry_attempts = 1
sync_power_state_interval = 0
check_provision_state_interval = 3600
[keystone_authtoken]
www_authenticate_uri = {identity}
auth_url = {identity}
auth_type = password
username = ironic
password = secret
project_name = services
user_domain_id = default
project_domain_id = default
[oslo_messaging_notifications]
driver = noop
"""
_REFERENCE = """
[DEFAULT]
rpc_transport = none
log_file = {folder}/service.log
use_stderr = false
tempdir = {folder}
[oslo_policy]
enforce_scope = true
enforce_new_defaults = true
"""


class Answer:
    """What a service has answered: status, headers in lower case, body."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        """The body's value; None if it has none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Compared:
    """One of the two services."""

    def __init__(self, name: str, command: list[list[str]], folder: pathlib.Path) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self._commands = command
        self._settings = folder / "service.conf"
        self._process: subprocess.Popen[bytes] | None = None
        self._wire: http.client.HTTPConnection | None = None

    def start(self, identity: str, more: str = "") -> None:
        """Create the database and start the service; returns when a conductor is known."""
        enabled = "\n".join(f"enabled_{kind}_interfaces = fake,no-{kind}" for kind in _KINDS)
        storage = "enabled_storage_interfaces = noop\nenabled_network_interfaces = noop\n"
        plain = "\n".join(
            f"enabled_{kind}_interfaces = fake"
            for kind in ("boot", "deploy", "management", "power")
        )
        told = {"folder": self.folder, "name": self.name, "port": self.port, "identity": identity}
        interfaces = f"enabled_hardware_types = fake-hardware\n{enabled}\n{storage}{plain}"
        text = (_COMMON + more).format(**told, interfaces=interfaces)
        self._settings.write_text(text, encoding="utf-8")
        config = ["--config-file", str(self._settings)]
        *before, last = self._commands
        with (self.folder / "out.log").open("ab") as log:
            for command in before:
                wanted = [part if part != "CONFIG" else config[1] for part in command]
                subprocess.run(wanted, check=True, stdout=log, stderr=log)
            self._process = subprocess.Popen(
                [*last, *config], stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                if (self.ask("GET", "/v1/drivers").json or {}).get("drivers"):
                    return
            time.sleep(0.2)
        said = (self.folder / "out.log").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"{self.name} does not answer: {said[-3000:]}")

    def stop(self) -> None:
        """End the service."""
        if self._wire is not None:
            self._wire.close()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        version: str | None = "1.115",
        token: str | None = "admin",
    ) -> Answer:
        """Send a request on a connection that is kept."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if version is not None:
            headers[HEADER] = version
        if token is not None:
            headers["X-Auth-Token"] = token
        for attempt in range(2):
            if self._wire is None:
                self._wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                self._wire.request(method, path, body, headers)
                found = self._wire.getresponse()
                told = {name.lower(): value for name, value in found.getheaders()}
                return Answer(found.status, told, found.read())
            except (OSError, http.client.HTTPException):
                self._wire.close()
                self._wire = None
                if attempt:
                    raise
        raise AssertionError

    def send(self, method: str, path: str, body: Any) -> Json:
        """Send a request that must succeed."""
        answer = self.ask(method, path, json.dumps(body).encode())
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"{self.name}: {method} {path}: {answer.status} {answer.body!r}")
        return dict(answer.json or {})

    # -- the database ------------------------------------------------------------------------

    @property
    def _database(self) -> sqlite3.Connection:
        path = self.folder / "compared.sqlite"
        return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)

    def edit(self, node: str, **columns: Any) -> None:
        """Give a node what no request can."""
        names = ", ".join(f"{name} = ?" for name in columns)
        with contextlib.closing(self._database) as database:
            done = database.execute(
                f"UPDATE nodes SET {names} WHERE uuid = ?", (*columns.values(), node)
            )
            if done.rowcount != 1:
                raise RuntimeError(f"{self.name} has no node {node}")

    def keep(self) -> None:
        """Remember what is in the database now."""
        with contextlib.closing(self._database) as database:
            database.execute("VACUUM INTO ?", (str(self.folder / "kept.sqlite"),))

    def set_back(self) -> None:
        """Put the database back to where it was, once nobody works on a node any more."""
        with contextlib.closing(self._database) as database:
            self._settle(database)
            database.execute("ATTACH ? AS kept", (str(self.folder / "kept.sqlite"),))
            found = database.execute("SELECT name FROM kept.sqlite_master WHERE type = 'table'")
            tables = [name for (name,) in found if name not in KEPT and name[:7] != "sqlite_"]
            database.execute("BEGIN IMMEDIATE")
            for table in tables:
                database.execute(f'DELETE FROM main."{table}"')
                database.execute(f'INSERT INTO main."{table}" SELECT * FROM kept."{table}"')
            database.execute("COMMIT")

    def _settle(self, database: sqlite3.Connection) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            held = database.execute(
                "SELECT count(*) FROM nodes WHERE reservation IS NOT NULL AND reservation != ?",
                (ELSEWHERE,),
            ).fetchone()
            if not held[0]:
                return
            time.sleep(0.01)


def reference(venv: pathlib.Path, folder: pathlib.Path) -> Compared:
    """Return real Ironic of a virtual environment, not yet started."""
    commands = [
        [str(venv / "bin/ironic-dbsync"), "--config-file", "CONFIG", "create_schema"],
        [str(venv / "bin/ironic")],
    ]
    return Compared("reference", commands, folder)


def ours(folder: pathlib.Path) -> Compared:
    """Return this service, not yet started."""
    scripts = pathlib.Path(sys.executable).parent
    return Compared("ours", [[str(scripts / "ironic-lite")]], folder)


REFERENCE_SETTINGS = _REFERENCE
