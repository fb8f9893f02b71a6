"""Start programs at once, by a fork of a process that has already loaded their modules.

A start of our programs, or of the command line client, is a second of imports and little work. A
forked program runs its own entry point to its end, in its own session, with arguments, environment
and files as if a shell had started it; only its modules are loaded already. Tests of the start
itself start programs in the ordinary way.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import gc
import importlib
import importlib.metadata
import json
import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Literal, NamedTuple, NoReturn

from stevedore import ExtensionManager

OURS = (
    # What ironic-lite loads before and after its forks.
    *("ironic_lite.cmd.all", "ironic_lite.api.server", "ironic_lite.cmd.conductor"),
    *("alembic.command", "alembic.config", "ironic_lite.hardware.*"),
    "ironic_lite.drivers.redfish.bmc.logins",
)
CLIENT = (
    # Not ironicclient.shell: it reads the command line when it is loaded.
    *("cliff.interactive", "cliff.lister", "cliff.show", "ironicclient.v1.client", "osc_lib.shell"),
    *("keystoneauth1.loading", "keystoneauth1.noauth", "openstack.config.cloud_region"),
    *("openstack.baremetal.v1", "cliff.formatter.*"),
)
AGENT = ("ironic_python_agent.cmd.agent", "ironic_python_agent.*")
"""Modules, and groups of entry points, that are loaded before the first fork."""
RPC = "tests.support.rpc_conductor"
"""A module whose function ``main`` is run; it is found by ``PYTHONPATH``."""
LOADED = {
    "ironic-lite": OURS,
    "baremetal": CLIENT,
    "ironic-python-agent": AGENT,
    "rpc_conductor": (RPC,),
}
ENDING_AT_ONCE = ("baremetal", "rpc_conductor")
"""Families whose programs leave nothing to the end of the interpreter."""
_CHANGING = ("OS_", "PYTEST_", "REDFISH_PASSWORD")
"""Beginnings of variables that may be others for each program."""
_REQUEST = 1 << 18
_STARTING = threading.Lock()


class Request(NamedTuple):
    """A program to be run: its command line and the whole of its environment."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    """Where it is run."""


# -- for tests -------------------------------------------------------------------------------


class ForkedProgram:
    """A program that runs; what is here is as in ``subprocess.Popen``."""

    def __init__(self, command: Sequence[str], pid: int, status: int) -> None:
        self.args = command
        self.pid = pid
        self.returncode: int | None = None
        self._status = open(status, "rb", buffering=0)  # noqa: SIM115

    def poll(self) -> int | None:
        """Return the exit status, minus the signal that ended it; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status.

        :raises subprocess.TimeoutExpired: it takes more than so many seconds.
        """
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
            with self._status:
                self.returncode = int(self._status.read() or -signal.SIGKILL)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)


class ForkServer:
    """The process that is forked for one family of programs.

    :param python: the command that runs its interpreter, perhaps as another user.
    :param folder: where it runs; None takes this process's.
    """

    def __init__(
        self,
        family: str,
        environment: Mapping[str, str],
        python: Sequence[str] = (sys.executable, "-P"),
        folder: str | None = None,
    ) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._turn = threading.Lock()
        # Another user may not be able to open this file. Its name is there for `leftovers`.
        with theirs, open(__file__, "rb") as source:
            # Ends when our end of the line is closed, with this process at the latest.
            self._process = subprocess.Popen(
                [*python, "-", str(theirs.fileno()), family, pathlib.Path(__file__).name],
                stdin=source,
                stdout=subprocess.DEVNULL,
                env=environment,
                cwd=folder,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def start(self, request: Request, files: Sequence[int]) -> ForkedProgram:
        """Start a program with these as standard input, output and error."""
        status, theirs = os.pipe()
        try:
            with self._turn:
                said = json.dumps(request).encode()
                socket.send_fds(self._line, [said], [*files, theirs])
                pid = int(self._line.recv(_REQUEST))
        finally:
            os.close(theirs)
        return ForkedProgram(request.command, pid, status)


def lasting(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that all programs of a server share, because modules may read them."""
    return {key: value for key, value in environment.items() if not key.startswith(_CHANGING)}


@functools.cache
def fork_server(family: str, _process: int, environment: tuple[tuple[str, str], ...]) -> ForkServer:
    """Return this process's server for a family of programs in an environment."""
    return ForkServer(family, dict(environment))


def start(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    stdin: IO[bytes],
    stdout: IO[bytes],
    stderr: IO[bytes],
    cwd: str | None = None,
    start_new_session: Literal[True] = True,
) -> ForkedProgram:
    """Start a program.

    :param command: the path of its script, and its arguments.
    :param cwd: the folder it is run in; None takes this process's.
    :param start_new_session: it always has one.
    """
    words = [os.fspath(word) for word in command]
    name = pathlib.Path(words[0]).name
    family = "ironic-lite" if name.startswith("ironic-lite") else name
    with _STARTING:  # threads that start the first programs at once share one server
        found = fork_server(family, os.getpid(), tuple(sorted(lasting(env).items())))
    files = [one.fileno() for one in (stdin, stdout, stderr)]
    return found.start(Request(words, dict(env), cwd or os.getcwd()), files)


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    timeout: float,
    input: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with ``input`` as its standard input.

    :raises subprocess.TimeoutExpired: it takes more than so many seconds, and is ended.
    """
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(input.encode())
        files[0].seek(0)
        program = start(command, env=env, stdin=files[0], stdout=files[1], stderr=files[2])
        try:
            status = program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGKILL)
            raise
        for file in files:
            file.seek(0)
        said, complained = (file.read().decode() for file in files[1:])
    return subprocess.CompletedProcess(program.args, status, said, complained)


# -- for shells ------------------------------------------------------------------------------

_VISITOR = """\
#!{python} -IS
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect({address!r})
said = json.dumps([sys.argv, dict(os.environ), os.getcwd()]).encode()
socket.send_fds(line, [said], [0, 1, 2])
status = int(line.recv(16))
sys.exit(status if status >= 0 else 128 - status)
"""


class ShellProxy:
    """Starts a program for a shell, through a stand-in for the program's script.

    :param folder: for the stand-in; it must have a short name, and comes first in the shell's PATH.
    :param script: the program's own script.
    :param env: what the program finds, but for the variables of the shell that begin with ``OS_``.
    """

    def __init__(self, folder: pathlib.Path, script: pathlib.Path, env: Mapping[str, str]) -> None:
        self._script, self._env = script, env
        address = str(folder / "door")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(address)
        self._listener.listen()
        visitor = folder / script.name
        visitor.write_text(_VISITOR.format(python=sys.executable, address=address))
        visitor.chmod(0o755)
        self._alive: list[ForkedProgram] = []
        self._threads = [threading.Thread(target=self._open, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """End what is still running, and let nobody in any more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for program in self._alive:
            program.send_signal(signal.SIGKILL)
        for thread in self._threads:
            thread.join()

    def _open(self) -> None:
        with contextlib.suppress(OSError):  # the end
            while True:
                visitor, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._let_in, args=(visitor,)))
                self._threads[-1].start()

    def _let_in(self, visitor: socket.socket) -> None:
        with visitor, contextlib.ExitStack() as opened:
            said, numbers, _, _ = socket.recv_fds(visitor, _REQUEST, 3)
            files = [opened.enter_context(open(one, "r+b", buffering=0)) for one in numbers]
            words, variables, folder = json.loads(said)
            told = {key: value for key, value in variables.items() if key.startswith("OS_")}
            program = start(
                [self._script, *words[1:]],
                env={**self._env, **told},
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                cwd=folder,
            )
            self._alive.append(program)
            with contextlib.suppress(OSError):  # who asked is gone
                visitor.send(str(program.wait()).encode())


# -- in the fork server ----------------------------------------------------------------------


def load(names: Sequence[str]) -> None:
    """Load modules, and what the entry points of groups name; ``a.b.*`` are several groups."""
    groups = importlib.metadata.entry_points().groups
    for name in names:
        for group in fnmatch.filter(groups, name):
            for point in importlib.metadata.entry_points(group=group):
                point.load()
        if not fnmatch.filter(groups, name):
            importlib.import_module(name)
    # stevedore then keeps all entry points of this path, which each program would look up again.
    ExtensionManager("", invoke_on_load=False)
    if CLIENT[0] in names:
        # cliff then keeps the modules of all distributions, which each command would look up again.
        importlib.import_module("cliff.complete").CompleteCommand(None, None).get_parser("")


def requests(line: socket.socket) -> Iterator[Request]:
    """Fork for each request; yields in the child, once. Ends when nobody can ask any more."""
    alive: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in alive:
                    selector.unregister(key.fd)
                    report_end(key.fd, *alive.pop(key.fd))
                    continue
                said, files, _, _ = socket.recv_fds(line, _REQUEST, 4)
                if not said:
                    return
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    line.close()
                    for handle, (_, status) in alive.items():
                        os.close(handle)
                        os.close(status)
                    settle(files)
                    yield Request(*json.loads(said))
                    return
                *inner, status = files
                for file in inner:
                    os.close(file)
                handle = os.pidfd_open(pid)
                alive[handle] = pid, status
                selector.register(handle, selectors.EVENT_READ)
                line.send(str(pid).encode())


def report_end(handle: int, pid: int, status: int) -> None:
    """Tell who started a program how it has ended."""
    _, code = os.waitpid(pid, 0)
    os.write(status, str(os.waitstatus_to_exitcode(code)).encode())
    os.close(status)
    os.close(handle)


def settle(files: Sequence[int]) -> None:
    """Take three files as standard input, output and error, and leave the session."""
    os.setsid()
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)


def main(line: str, family: str, _name: str) -> Any:
    """Serve forks; in a child, run the requested program. Return the exit status."""
    sys.argv = [family]  # cliff takes the program's name from here when it is loaded
    load(LOADED[family])
    gc.collect()
    gc.freeze()
    tasks = os.listdir("/proc/self/task")
    assert len(tasks) == 1, "a thread would not be there after a fork"
    points = importlib.metadata.entry_points(group="console_scripts")
    scripts = {point.name: point for point in points}
    for request in requests(socket.socket(fileno=int(line))):
        os.environ.clear()
        os.environ.update(request.environment)
        places = request.environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [place for place in places if place and place not in sys.path]
        os.chdir(request.folder)
        sys.argv = request.command
        name = pathlib.Path(request.command[0]).name
        run: Callable[[], object] = (
            scripts[name].load() if name in scripts else importlib.import_module(RPC).main
        )
        if family in ENDING_AT_ONCE:
            run_and_end(run)
        return run()
    return 0


def run_and_end(run: Callable[[], object]) -> NoReturn:
    """Run an entry point, and end this process with its status at once.

    The interpreter would visit each object before, and so copy all memory that forks share.
    """
    status: object = 1
    try:
        status = run()
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
