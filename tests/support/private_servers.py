"""Database and broker servers of a test's own: in a folder, on free ports, removed at the end.

Servers that already run on this machine are not touched. Root starts them as the users that their
packages have created; other users start them as themselves.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.ports import HOST, free_port
from tests.support.service import family, gone, until

ACCOUNT = "ironic_lite"
PATIENCE = 300.0
"""Seconds that any program may take; nothing here is expected to take that long."""
_STOP = 30.0
"""Seconds in which a server may end by itself."""


class Lacking(Exception):
    """Something that a fault needs is not on this machine."""


class Server:
    """A server that can be killed and started again.

    :param name: of the folder and of the log.
    :param user: whom root lets it run as.
    """

    def __init__(self, folder: pathlib.Path, name: str, user: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.port = free_port()
        self._user = user if os.geteuid() == 0 else None
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            shutil.chown(self.folder, self._user, pwd.getpwnam(self._user).pw_gid)

    # -- what each kind is -------------------------------------------------------------------

    def command(self) -> list[str]:
        """Return what starts it."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return what its environment has besides ours."""
        return {}

    @property
    def pid(self) -> int:
        """The process that was started last."""
        assert self._process is not None
        return self._process.pid

    def answers(self) -> bool:
        """Return whether the server accepts requests."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 2):
            return True
        return False

    # -- its life ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start it; return when it takes requests."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self._identity(),
            )
        until(self._up, f"{self.folder.name} answers, see {self._log}")

    def _up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-4000:]
        return self.answers()

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, by force if it does not hear; return when it is gone."""
        if self._process is None:
            return
        left = family(self._process.pid)
        self._process.send_signal(number)
        end = time.monotonic() + _STOP
        while not gone(left) and time.monotonic() < end:
            time.sleep(0.05)
            if self._process.poll() is not None and number is signal.SIGKILL:
                break
        for one in left:
            with contextlib.suppress(Exception):
                one.kill()
        self._process.wait(PATIENCE)
        until(lambda: gone(left), f"{self.folder.name} is gone")

    def run(self, *words: str) -> None:
        """Run a program of its package as the same user."""
        with self._log.open("ab") as log:
            subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                check=True,
                timeout=PATIENCE,
                **self._identity(),
            )

    def _identity(self) -> dict[str, Any]:
        more: dict[str, Any] = {"env": {**os.environ, **self.environment()}}
        if self._user is not None:
            more |= {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid}
            more |= {"extra_groups": []}
        return more


def program(name: str, *places: str) -> str:
    """Return the path of a program.

    :raises Lacking: it is not here.
    """
    path = os.pathsep.join([*places, os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        raise Lacking(f"{name} is not installed")
    return found


class PostgreSQL(Server):
    """PostgreSQL.

    :param also: a further address of this machine at which it listens, and trusts its network.
    """

    def __init__(self, folder: pathlib.Path, also: str | None = None) -> None:
        self._also = also
        newest = sorted(str(one) for one in pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        self._places = newest[::-1]
        self._postgres = program("postgres", *self._places)
        super().__init__(folder, "postgresql", "postgres")
        options = ("--auth=trust", f"--username={ACCOUNT}", "--encoding=UTF8", "--no-sync")
        initdb = program("initdb", *self._places)
        self.run(initdb, *options, "--locale=C.UTF-8", "-D", str(self.folder / "data"))
        if also is not None:
            with (self.folder / "data" / "pg_hba.conf").open("a") as rules:
                print(f"host all all {also}/24 trust", file=rules)
        self.start()
        at = ("-h", HOST, "-p", str(self.port), "-U", ACCOUNT)
        self.run(program("createdb", *self._places), *at, ACCOUNT)

    def command(self) -> list[str]:
        """Return what starts it."""
        settings = {
            "listen_addresses": ",".join(filter(None, (HOST, self._also))),
            "port": self.port,
            "unix_socket_directories": self.folder,
            "max_connections": 300,
            "shared_buffers": "32MB",
        }
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [self._postgres, "-D", str(self.folder / "data"), *words]

    def answers(self) -> bool:
        """Return whether the server accepts requests."""
        ready = program("pg_isready", *self._places)
        asked = [ready, "-q", "-h", HOST, "-p", str(self.port), "-U", ACCOUNT]
        return subprocess.run(asked, check=False, timeout=PATIENCE).returncode == 0

    def url(self, port: int) -> str:
        """Return the URL by which our processes reach it over a port."""
        return f"postgresql://{ACCOUNT}@{HOST}:{port}/{ACCOUNT}"


class MariaDB(Server):
    """MariaDB."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._server = program("mariadbd")
        super().__init__(folder, "mariadb", "mysql")
        make = (program("mariadb-install-db"), "--no-defaults", "--skip-test-db")
        self.run(*make, "--auth-root-authentication-method=normal", f"--datadir={self._data}")
        (self.folder / "init.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {ACCOUNT} CHARACTER SET utf8mb4;\n"
            f"CREATE USER IF NOT EXISTS '{ACCOUNT}'@'%';\n"
            f"GRANT ALL ON {ACCOUNT}.* TO '{ACCOUNT}'@'%';\n"
        )
        self.start()

    @property
    def _data(self) -> pathlib.Path:
        return self.folder / "data"

    def command(self) -> list[str]:
        """Return what starts it."""
        return [
            *(self._server, "--no-defaults", f"--datadir={self._data}", f"--port={self.port}"),
            *(f"--bind-address={HOST}", f"--socket={self.folder}/socket", "--skip-name-resolve"),
            *(f"--init-file={self.folder}/init.sql", "--max-connections=300"),
            *(f"--pid-file={self.folder}/pid", "--innodb-buffer-pool-size=32M"),
        ]

    def url(self, port: int) -> str:
        """Return the URL by which our processes reach it over a port."""
        return f"mariadb://{ACCOUNT}@{HOST}:{port}/{ACCOUNT}"


class RabbitMQ(Server):
    """RabbitMQ, with a name server (epmd) of its own, or that of its peers.

    :param names: the port of the name server.
    """

    def __init__(
        self, folder: pathlib.Path, name: str = "rabbitmq", names: int | None = None
    ) -> None:
        self._server = program("rabbitmq-server", "/usr/lib/rabbitmq/bin")
        self._control = program("rabbitmqctl", "/usr/lib/rabbitmq/bin")
        self._epmd = program("epmd")
        super().__init__(folder, name, "rabbitmq")
        self._names, self._cluster = names or free_port(), free_port()
        self.node = f"chaos{self.port}@localhost"
        (self.folder / "plugins").write_text("[].\n")
        self.settings = self.folder / "rabbitmq.conf"
        self.settings.write_text("loopback_users = none\n")

    def command(self) -> list[str]:
        """Return what starts it."""
        return [self._server]

    def environment(self) -> Mapping[str, str]:
        """Return where all its things are."""
        return {
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",  # it ends when asked, whom it knows or not
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._cluster),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.settings),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
        }

    def said(self, *words: str) -> str:
        """Return what rabbitmqctl answers."""
        answer: subprocess.CompletedProcess[str] = subprocess.run(
            [self._control, "-q", *words],
            cwd=self.folder,  # where we are, its user may have nothing to look for
            capture_output=True,
            check=False,
            timeout=PATIENCE,
            text=True,
            **self._identity(),
        )
        return answer.stdout

    def close(self) -> None:
        """End it and its name server."""
        self.stop()
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run(self._epmd, "-kill")

    def url(self, port: int) -> str:
        """Return the URL by which our processes reach it over a port."""
        return f"rabbit://guest:guest@{HOST}:{port}/"


DATABASES: Mapping[str, type[PostgreSQL] | type[MariaDB]] = {
    "postgresql": PostgreSQL,
    "mysql": MariaDB,
}


@contextlib.contextmanager
def database(kind: str, folder: pathlib.Path) -> Iterator[PostgreSQL | MariaDB]:
    """Give a database server.

    :raises Lacking: it is not installed.
    """
    server = DATABASES[kind](folder)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def broker(folder: pathlib.Path) -> Iterator[RabbitMQ]:
    """Give a broker.

    :raises Lacking: it is not installed.
    """
    server = RabbitMQ(folder)
    try:
        server.start()
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, mib: int) -> Iterator[None]:
    """Make a folder a disk of its own, so small that it can be filled.

    :raises Lacking: only root may.
    """
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    if made.returncode != 0:
        raise Lacking("only root may make a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=PATIENCE)
