"""Attacks that would ruin the load: each on a service of its own."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import requests

from tests.attack.connections import Address, request
from tests.emulators import bmc
from tests.emulators import images as image_server
from tests.support import private_servers
from tests.support.service import HOST, Service, family, service, until

MIB = 1 << 20
SETTINGS = "[api]\nworkers = 2\n"

# -- lost files ------------------------------------------------------------------------------

DAMAGED_SECONDS = 3.0
_CUT = """\
import os, sys
path, kept = sys.argv[1:]
with open(path, "r+b") as file, open(kept, "wb") as copy:
    size = os.fstat(file.fileno()).st_size
    copy.write(os.pread(file.fileno(), size, size // 2))
    os.ftruncate(file.fileno(), size // 2)
"""
_MEND = """\
import os, sys
path, kept = sys.argv[1:]
with open(path, "r+b") as file, open(kept, "rb") as copy:
    os.pwrite(file.fileno(), copy.read(), os.fstat(file.fileno()).st_size)
"""


class _Writer:
    """A client that creates nodes all the time.

    :ivar accepted: names that were answered 201, and when each was asked for.
    """

    def __init__(self, found: Service) -> None:
        self.accepted: dict[str, float] = {}
        self.answers = 0
        self._url = f"{found.url}/v1/nodes"
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Create nodes during the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._closing.set()
            self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(requests.Session()) as session:
            session.trust_env = False
            while not self._closing.wait(0.02):
                begun, name = time.monotonic(), f"node-{self.answers}"
                body = {"driver": "fake-hardware", "name": name}
                with contextlib.suppress(OSError):
                    if session.post(self._url, json=body, timeout=30).status_code == 201:
                        self.accepted[name] = begun
                self.answers += 1


def lost_log(_target: object) -> Iterator[str]:
    """The write-ahead log of SQLite is removed."""

    def remove(database: pathlib.Path) -> None:
        database.with_name(f"{database.name}-wal").unlink()

    yield from _damaged(remove)


def cut_database(_target: object) -> Iterator[str]:
    """The file of SQLite is cut in place; its rest is put back later."""

    def work(program: str, database: pathlib.Path) -> None:
        # By another process: closing the file would drop all locks that this one has on it.
        command = [sys.executable, "-c", program, str(database), f"{database}.rest"]
        subprocess.run(command, check=True)

    yield from _damaged(lambda path: work(_CUT, path), lambda path: work(_MEND, path))


def _damaged(
    damage: Callable[[pathlib.Path], None], mend: Callable[[pathlib.Path], None] | None = None
) -> Iterator[str]:
    """Damage the database while nodes are created; nothing may be accepted, nothing be lost."""
    with service(SETTINGS, migrated=False) as found:
        program = found.start()
        found.up()
        writer, database = _Writer(found), found.folder / "state" / "ironic-lite.sqlite"
        with writer.running():
            time.sleep(DAMAGED_SECONDS)
            damage(database)
            begun, before = time.monotonic(), writer.answers
            time.sleep(DAMAGED_SECONDS)
            ready = found.ask("GET", "/readyz").status_code
        late = [name for name, asked in writer.accepted.items() if asked > begun]
        if late:
            yield f"{len(late)} nodes were accepted after the damage, the first is {late[0]}"
        if ready != 503:
            yield f"the API calls itself ready after the damage: {ready}"
        if not writer.accepted or writer.answers == before:
            yield f"nothing was asked for: {len(writer.accepted)} nodes, {writer.answers} answers"
        if mend is not None:
            mend(database)
        program.stop()
        found.start()
        try:
            found.up()
        except AssertionError as why:
            yield f"the service does not start again: {why}"
            return
        if lost := writer.accepted.keys() - _names(found, "/v1/nodes?fields=name"):
            yield f"{len(lost)} of {len(writer.accepted)} accepted nodes are lost: {min(lost)}"


def _names(found: Service, path: str) -> set[str]:
    """Return the names of all nodes, page by page; what is not answered is left out."""
    names: set[str] = set()
    while path:
        page = found.get(path) or {}
        names |= {node["name"] for node in page.get("nodes", ())}
        path = str(page.get("next", "")).removeprefix(found.url)
    return names


# -- stalled readers -------------------------------------------------------------------------

LARGE_NODES, NODE_BYTES = 60, 1_000_000
READERS = 8
STALLED_SECONDS = 8.0
GROWTH = 500 * MIB
"""More resident memory than before; an answer takes several times its size for a moment."""
OTHERS_WAIT = 10.0


def stalled_readers(_target: object) -> Iterator[str]:
    """Clients that ask for a page of large nodes and read nothing of it."""
    with service(SETTINGS) as found:
        program = found.start()
        found.up()
        for number in range(LARGE_NODES):
            found.create(f"large-{number}", extra={"text": "x" * NODE_BYTES})
        before = _memory(program.pid)
        most, waited = before, 0.0
        with contextlib.ExitStack() as opened:
            for _ in range(READERS):
                line = opened.enter_context(_connection((HOST, found.port)))
                line.sendall(request("GET", "/v1/nodes/detail"))
            end = time.monotonic() + STALLED_SECONDS
            while time.monotonic() < end:
                begun = time.monotonic()
                answer = found.ask("GET", "/v1/nodes?limit=1&fields=uuid")
                waited = max(waited, time.monotonic() - begun)
                if answer.status_code != 200:
                    yield f"another client was answered {answer.status_code}: {answer.text[:200]}"
                most = max(most, _memory(program.pid))
                time.sleep(0.2)
        if most - before > GROWTH:
            yield f"{READERS} stalled readers take {(most - before) // MIB} MiB"
        if waited > OTHERS_WAIT:
            yield f"another client waited {waited:.1f} s"
        if (seen := len(_names(found, "/v1/nodes/detail"))) != LARGE_NODES:
            yield f"the pages show {seen} of {LARGE_NODES} nodes when the readers are gone"


# -- images on a full disk -------------------------------------------------------------------

DISK_MIB, IMAGES, IMAGE_MIB = 96, 6, 24
IMAGE_SETTINGS = """\
[DEFAULT]
enabled_hardware_types = redfish
enabled_boot_interfaces = ipxe
enabled_deploy_interfaces = direct
enabled_inspect_interfaces = no-inspect
enabled_raid_interfaces = no-raid
[service_catalog]
endpoint_override = http://127.0.0.1:1
[deploy]
http_url = http://127.0.0.1:1
[agent]
image_download_source = local
[conductor]
automated_clean_enable = false
"""


def full_image_cache(_target: object) -> Iterator[str]:
    """Deployments of more images than the disk has room for, one after the other."""
    with contextlib.ExitStack() as made:
        found = made.enter_context(service(IMAGE_SETTINGS, migrated=False))
        web, state = found.folder / "web", found.folder / "state"
        for folder in (web, state):
            folder.mkdir()
        try:
            made.enter_context(private_servers.small_disk(state, DISK_MIB))
        except private_servers.Lacking:
            return
        images = made.enter_context(image_server.serve(web))
        machine = made.enter_context(bmc.serve())
        program = found.start()
        made.callback(program.clear)
        found.up()
        parts = {f"deploy_{name}": f"{images.url}/{name}" for name in ("kernel", "ramdisk")}
        for name in ("kernel", "ramdisk"):
            (web / name).write_bytes(name.encode() * 1000)
        more = {"driver": "redfish", "driver_info": {**machine.driver_info, **parts}}
        node = found.create("machine", **more)
        card = {"node_uuid": node, "address": "52:54:00:00:00:01"}
        found.ask("POST", "/v1/ports", card).raise_for_status()
        found.provision("machine", "manage", "manageable")
        found.provision("machine", "provide", "available")
        for number in range(IMAGES):
            info = images.put(f"image-{number}", bytes([number + 1]) * IMAGE_MIB * MIB)
            patch = [{"op": "add", "path": "/instance_info", "value": info}]
            found.ask("PATCH", "/v1/nodes/machine", patch).raise_for_status()
            path = "/v1/nodes/machine/states/provision"
            found.ask("PUT", path, {"target": "active"}).raise_for_status()
            row = until(functools.partial(_prepared, found), "a prepared machine")
            assert row is not None
            if row["provision_state"] != "wait call-back":
                yield f"image {number + 1} of {IMAGES}: {row['last_error']}"
                return
            found.provision("machine", "deleted", "available")


def _prepared(found: Service) -> dict[str, Any] | None:
    """Return the node when its image is published, or its deployment has failed."""
    row: dict[str, Any] = found.get("/v1/nodes/machine") or {}
    there = row.get("provision_state") in ("wait call-back", "deploy failed")
    return row if there and not row["reservation"] else None


def _connection(address: Address) -> socket.socket:
    """Return a connection with a small buffer for what arrives."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(30)
    line.connect(address)
    return line


def _memory(pid: int) -> int:
    total = 0
    for one in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += one.memory_info().rss
    return total
