"""An import of 10 000 nodes from Ironic, and an export of changes of all: seconds and memory.

Source and target are databases of the same kind. The source is a recorded database of Ironic 39
with a fleet: each node has 2 ports, 4 traits, 20 entries of the history and an inventory of 20 kB.
``python -m benchmarks.move_in sqlite mysql`` measures these kinds only.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import sqlalchemy as sa

from benchmarks.figures import Figure, report, size
from tests.move_in import recorded
from tests.support import private_servers
from tests.support.service import SCRIPTS, environment, short_folder

NODES = size(10_000, smoke=50)
SECONDS, MIB = 60.0, 128.0
VERSION = "39.0.0"
KINDS = ("sqlite", "postgresql", "mysql")
_SETTINGS = """
[DEFAULT]
state_path = {folder}/state
enabled_hardware_types = fake-hardware,redfish,ipmi
[database]
connection = {database}
"""


def _database(kind: str, folder: pathlib.Path, name: str, opened: contextlib.ExitStack) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder}/{name}.sqlite"
    place = folder / name
    place.mkdir()
    place.chmod(0o755)  # the server runs as another user
    server = opened.enter_context(private_servers.database(kind, place))
    return server.url(server.port)


def _run(settings: pathlib.Path, *words: str) -> tuple[float, float, float]:
    """Run ironic-lite-dbsync; return its seconds, those of its CPU, and the MiB of its memory.

    :raises RuntimeError: it has refused.
    """
    command = [str(SCRIPTS / "ironic-lite-dbsync"), "--config-file", str(settings), *words]
    began = time.monotonic()
    with settings.with_suffix(".log").open("w+b") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            log.seek(0)
            raise RuntimeError(log.read().decode(errors="replace")[-3000:])
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _figures(kind: str, folder: pathlib.Path, opened: contextlib.ExitStack) -> Iterator[Figure]:
    theirs, ours = (_database(kind, folder, name, opened) for name in ("theirs", "ours"))
    engine = recorded.engine_of(theirs)
    if kind == "sqlite":
        recorded.recorded_file(VERSION, folder / "theirs.sqlite")
    else:
        recorded.copy(recorded.recorded_file(VERSION, folder / "recorded.sqlite"), engine)
    recorded.add_fleet(engine, NODES)
    settings = folder / "ironic-lite.conf"
    settings.write_text(_SETTINGS.format(folder=folder, database=ours), encoding="utf-8")
    _run(settings, "upgrade")
    yield from _command(settings, kind, "import-ironic", "--from", theirs)
    with recorded.engine_of(ours).begin() as conn:
        conn.execute(sa.text("UPDATE nodes SET description = 'changed here'"))
        conn.execute(sa.text("DELETE FROM node_traits WHERE trait LIKE '%0'"))
    yield from _command(settings, kind, "export-ironic", "--yes", "--to", theirs)


def _command(settings: pathlib.Path, kind: str, *words: str) -> Iterator[Figure]:
    seconds, cpu, mib = _run(settings, *words, "--conductors-stopped")
    name = words[0].removesuffix("-ironic")
    yield Figure(f"{name} of {NODES} nodes, {kind}", seconds, "s", SECONDS)
    yield Figure(f"... CPU of the command, {kind}", cpu, "s")
    yield Figure(f"... memory, {kind}", mib, "MiB", MIB)


def main() -> int:
    """Measure and print; return the exit status."""
    figures = []
    for kind in sys.argv[1:] or KINDS:
        with contextlib.ExitStack() as opened:
            folder = opened.enter_context(short_folder())
            folder.chmod(0o755)
            try:
                figures += list(_figures(kind, folder, opened))
            except private_servers.Lacking as why:
                print(f"NOT MEASURED on {kind}: {why}")
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
