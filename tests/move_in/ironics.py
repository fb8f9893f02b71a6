"""Real Ironic of a release: its virtual environment, database, process and API."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tests.compare.services import HEADER, Answer
from tests.move_in import recorded
from tests.support.ports import HOST, free_port

Json = dict[str, Any]

VERSIONS = ("24.1.5", "26.1.6", "29.0.6", "32.1.0", "35.1.0", "39.0.0")
CONDUCTOR = "c1"
PATIENCE = 180.0
_DRIVERS = ("pymysql", "psycopg2-binary")
_KINDS = ("console", "inspect", "raid", "bios", "firmware", "vendor", "rescue")
_SETTINGS = """
[DEFAULT]
auth_strategy = noauth
host = {host}
rpc_transport = none
log_file = {folder}/ironic.log
use_stderr = false
graceful_shutdown_timeout = 2
state_path = {folder}
tempdir = {folder}
enabled_hardware_types = fake-hardware,redfish,ipmi
{fakes}
enabled_boot_interfaces = fake,redfish-virtual-media,ipxe,pxe
enabled_deploy_interfaces = fake,direct,ramdisk
enabled_management_interfaces = fake,redfish,ipmitool
enabled_power_interfaces = fake,redfish,ipmitool
enabled_network_interfaces = noop
enabled_storage_interfaces = noop
[api]
host_ip = 127.0.0.1
port = {port}
[database]
connection = {database}
[conductor]
automated_clean = true
node_locked_retry_attempts = 10
sync_power_state_interval = 0
power_failure_recovery_interval = 0
[deploy]
http_root = {folder}/httpboot
erase_devices_priority = 0
[pxe]
tftp_root = {folder}/tftp
images_path = {folder}/images
instance_master_path = {folder}/master
tftp_master_path = {folder}/tftp/master
[oslo_messaging_notifications]
driver = noop
"""
_MORE = {
    "inspect": ("agent",),
    "raid": ("agent",),
    "bios": ("redfish",),
    "firmware": ("redfish",),
    "vendor": ("redfish", "ipmitool"),
    "rescue": ("agent",),
    "console": ("ipmitool-socat",),
}
_FACTS = """
import json
from alembic import config, script
from ironic.common import release_mappings
from ironic.db.sqlalchemy import models
import ironic.db.sqlalchemy
settings = config.Config()
settings.set_main_option('script_location', ironic.db.sqlalchemy.__path__[0] + '/alembic')
objects = release_mappings.RELEASE_MAPPING['master']['objects']
print(json.dumps({
    'head': script.ScriptDirectory.from_config(settings).get_current_head(),
    'objects': {name: sorted(found, key=lambda one: [int(x) for x in one.split('.')])[-1]
                for name, found in objects.items()},
    'tables': {name: [one.name for one in table.columns]
               for name, table in models.Base.metadata.tables.items()},
}))
"""

_PROGRAM_OF_32 = """
import sys
from ironic.command import singleprocess
launcher = singleprocess.service.ServiceLauncher
singleprocess.service.ServiceLauncher = lambda conf, no_fork, **more: launcher(conf, **more)
sys.exit(singleprocess.main())
"""
"""Ironic 32.1 passes an argument that no release of its library accepts, and so never starts."""


def venv(version: str) -> pathlib.Path:
    """Return the virtual environment of a release; the first call installs the release."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"ironic-{version}"
    done = folder / ".done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"ironic == {version}", "sushy", *_DRIVERS], check=True)
        done.touch()
    return folder


class Facts:
    """Head, tables and newest object versions of a release, from the release itself."""

    def __init__(self, found: Json) -> None:
        self.head: str = found["head"]
        self.objects: Mapping[str, str] = found["objects"]
        self.tables: Mapping[str, list[str]] = found["tables"]


@functools.cache
def facts(version: str) -> Facts:
    """Return the facts of a release."""
    python = str(venv(version) / "bin/python")
    return Facts(json.loads(subprocess.check_output([python, "-W", "ignore", "-c", _FACTS])))


class Ironic:
    """Ironic of a release as one process, in a folder.

    :param database: the URL of an empty database; by default an SQLite file in the folder.
    :param settings: text that is added to its configuration.
    """

    def __init__(
        self, version: str, folder: pathlib.Path, database: str = "", settings: str = ""
    ) -> None:
        self.version = version
        self.folder = folder
        self.port = free_port()
        self.file = folder / "ironic.sqlite"
        self.settings = folder / "ironic.conf"
        self.url = f"http://{HOST}:{self.port}"
        self._bin = venv(version) / "bin"
        self._process: subprocess.Popen[bytes] | None = None
        self._wire: http.client.HTTPConnection | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "httpboot").mkdir(exist_ok=True)
        self.engine = recorded.engine_of(database or f"sqlite:///{self.file}")
        theirs = self.engine.url
        plain = theirs.drivername.replace("+psycopg", "+psycopg2")
        self.database = theirs.set(drivername=plain).render_as_string(hide_password=False)
        fakes = "\n".join(
            f"enabled_{kind}_interfaces = {','.join(('fake', f'no-{kind}', *_MORE[kind]))}"
            for kind in _KINDS
        )
        told = {"folder": folder, "port": self.port, "host": CONDUCTOR, "fakes": fakes}
        text = _SETTINGS.format(**told, database=self.database) + settings
        self.settings.write_text(text, encoding="utf-8")

    # -- its programs ------------------------------------------------------------------------

    def run(self, program: str, *words: str) -> str:
        """Run one of its programs; return what it prints."""
        command = [str(self._bin / program), "--config-file", str(self.settings), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} {words}: {done.stdout}{done.stderr}{self._logs()}")
        return done.stdout

    def create_schema(self) -> None:
        """Create the tables in the empty database."""
        self.run("ironic-dbsync", "create_schema")

    def start(self) -> None:
        """Start it; return when the conductor is known."""
        with (self.folder / "out.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._program(), "--config-file", str(self.settings)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if (self.ask("GET", "/v1/drivers").json or {}).get("drivers"):
                    return
            time.sleep(0.2)
        raise RuntimeError(f"Ironic {self.version} does not answer: {self._logs()}")

    def _logs(self) -> str:
        files = [self.folder / name for name in ("out.log", "ironic.log")]
        return "".join(one.read_text(errors="replace")[-4000:] for one in files if one.exists())

    def _program(self) -> list[str]:
        if self.version.startswith("32."):
            return [str(self._bin / "python"), "-W", "ignore", "-c", _PROGRAM_OF_32]
        return [str(self._bin / "ironic")]

    def stop(self) -> None:
        """End it as an init system does."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    # -- its API -----------------------------------------------------------------------------

    @functools.cached_property
    def newest(self) -> int:
        """Its newest microversion, without the 1 before it."""
        found = self.ask("GET", "/v1/").headers["x-openstack-ironic-api-maximum-version"]
        return int(found.partition(".")[2])

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request with its newest microversion, on a connection that is kept."""
        headers = {HEADER: "latest", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(2):
            if self._wire is None:
                self._wire = http.client.HTTPConnection(HOST, self.port, timeout=60)
            try:
                self._wire.request(method, path, data, headers)
                found = self._wire.getresponse()
                told = {name.lower(): value for name, value in found.getheaders()}
                return Answer(found.status, told, found.read())
            except (OSError, http.client.HTTPException):
                self._wire.close()
                self._wire = None
                if attempt:
                    raise
        raise AssertionError

    def send(self, method: str, path: str, body: Any = None) -> Json:
        """Send a request that must succeed; return the object that it answers."""
        answer = self.ask(method, path, body)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            place = f"Ironic {self.version}: {method} {path}"
            raise RuntimeError(f"{place}: {answer.status} {answer.body!r}")
        return answer.json if isinstance(answer.json, dict) else {}

    def reaches(self, path: str, field: str, *values: object) -> Json:
        """Wait until a field of an object has one of these values; return the object."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.send("GET", path)
            if found.get(field) in values and not found.get("reservation"):
                return found
            time.sleep(0.1)
        raise RuntimeError(f"Ironic {self.version}: {path} has {field} {found.get(field)!r}")
