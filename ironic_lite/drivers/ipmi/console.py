"""Serial consoles by IPMI serial over LAN: ipmitool behind a TCP port of socat.

The session with the BMC begins with a client's connection, and ends with it. A BMC allows one such
session at a time, so a leftover session is closed before a console starts.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import hardware, info, tool

# Console programs: socat at one TCP port each, and the program that socat starts.
#
# Each is a process group led by a shell that reads from a pipe of this process. When the pipe ends,
# for any reason, the shell kills the group, so nothing continues to serve for a dead conductor. One
# thread reads the messages of all socat processes.

LOG = logging.getLogger(__name__)

PROGRAM = "socat"
TERMINAL = "IRONIC_LITE_TERMINAL"
"""The environment variable with the command that socat starts, in shell syntax."""

_HEAD = '("$@" </dev/null; kill -KILL 0) & read -r _; kill -KILL 0'
# No words of a node are on socat's command line, so its quoting rules do not matter.
# The shell neither splits the variable at blanks nor expands patterns in it.
# EXEC instead of SYSTEM would kill ipmitool, which then could not end the session.
_CHILD = f"SYSTEM:set -f; IFS=; eval exec ${TERMINAL},pty,rawer,stderr"

_SAID = re.compile(r"socat\[\d+\] ([A-Z]) (.*)")
_LISTENS, _NOTICE, _FAULTS = "listening on", "N", "EF"
_CHUNK, _LONGEST = 4096, 300
_END_SECONDS = 2.0
"""Time for the shell to kill its group."""


def line(address: str, port: int, timeout: int) -> list[str]:
    """Return socat's command line: one connection at a time; further ones wait.

    :param address: IP address to listen at.
    :param timeout: seconds of silence after which a connection ends, 0 for never.
    """
    family, host = ("6", f"[{address}]") if ":" in address else ("4", address)
    silence = ["-T", str(timeout)] if timeout else []
    # -d -d makes socat report that it listens.
    listen = f"TCP{family}-LISTEN:{port},bind={host},reuseaddr,fork,max-children=1"
    return [PROGRAM, "-d", "-d", *silence, listen, _CHILD]


class Program:
    """One console program: a ``base.Proxy``."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.port = port
        self.settled = threading.Event()
        """Set when the program listens, or has ended."""
        self.listening = False
        self.said = ""
        self._process = process
        self._begun = time.monotonic()
        self._over: float | None = None
        self._ended = threading.Event()
        self._rest = b""

    @property
    def output(self) -> IO[bytes]:
        """The program's messages."""
        assert self._process.stderr is not None
        return self._process.stderr

    @property
    def pid(self) -> int:
        """The process's number; it leads its group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Return whether the program still runs."""
        return not self._ended.is_set() and self._process.poll() is None

    @property
    def lived(self) -> float:
        """The seconds for which the program has run."""
        return (self._over or time.monotonic()) - self._begun

    def hear(self, chunk: bytes) -> None:
        """Process some of the program's messages."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[-_CHUNK:]
        for one in lines:
            self._heed_line(one.decode("utf-8", "replace").strip())

    def _heed_line(self, text: str) -> None:
        found = _SAID.search(text)
        level, words = found.groups() if found else ("E", text)
        if level == _NOTICE and words.startswith(_LISTENS):
            self.listening = True
            self.said = ""  # an earlier connection's faults do not explain the end
            self.settled.set()
        elif level in _FAULTS and words:
            LOG.debug("%s at port %d says: %s", PROGRAM, self.port, words)
            self.said = "".join(one if one.isprintable() else "?" for one in words)[:_LONGEST]

    def mark_ended(self) -> None:
        """Note the end of the program and all its children."""
        self._over = time.monotonic()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait(_END_SECONDS)
        finally:
            self.output.close()
            self._ended.set()
            self.settled.set()

    def release(self) -> None:
        """Close the pipe, so that the group is killed; do not wait for it."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def end(self) -> None:
        """Kill the group; this takes milliseconds."""
        headless = self._process.poll() is not None
        self.release()
        if headless or not self._ended.wait(_END_SECONDS):
            self._kill()
            self._ended.wait(_END_SECONDS)

    def _kill(self) -> None:
        # The group's id is not reused before its last process has ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


class Programs:
    """Starts programs and reads their messages, in a thread that lives while there are any."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._new: list[Program] = []
        self._wake: int | None = None  # a byte here makes the thread look for new programs

    def start(
        self, words: Sequence[str], port: int, environment: Mapping[bytes, bytes], seconds: float
    ) -> Program:
        """Start a program and wait until it listens.

        :param words: see `line`.
        :raises OSError: it cannot be started, or does not listen within ``seconds``; has the
            reason.
        """
        process = subprocess.Popen(
            ["/bin/sh", "-c", _HEAD, "sh", *words],
            env=environment,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # A process group to kill as one, without a terminal except the one of socat.
            start_new_session=True,
        )
        program = Program(process, port)
        try:
            self._listen_to(program)
        except BaseException:
            program.release()
            raise
        program.settled.wait(seconds)
        if not (program.listening and program.running):
            late = program.running
            program.end()
            waited = f"it did not listen within {seconds:g} s"
            raise OSError(program.said or (waited if late else "it ended without a message"))
        return program

    def _listen_to(self, program: Program) -> None:
        with self._guard:
            if self._wake is None:
                ear, wake = os.pipe()
                name = "consoles"
                try:
                    threading.Thread(
                        target=self._watch_programs, args=(ear,), name=name, daemon=True
                    ).start()
                except RuntimeError:  # the system cannot start a thread
                    os.close(ear)
                    os.close(wake)
                    raise
                self._wake = wake
            self._new.append(program)
            os.write(self._wake, b"!")

    def _watch_programs(self, ear: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(ear, selectors.EVENT_READ)
            while not self._register_programs(selector, ear):
                for key, _ in selector.select():
                    if key.data is None:
                        os.read(ear, _CHUNK)
                    else:
                        _read_program(selector, key.data)

    def _register_programs(self, selector: selectors.BaseSelector, ear: int) -> bool:
        """Register new programs; return True if there are no programs at all."""
        with self._guard:
            for program in self._new:
                selector.register(program.output, selectors.EVENT_READ, program)
            self._new.clear()
            if len(selector.get_map()) > 1:
                return False
            if self._wake is not None:
                os.close(self._wake)
            os.close(ear)
            self._wake = None
            return True


def _read_program(selector: selectors.BaseSelector, program: Program) -> None:
    chunk = os.read(program.output.fileno(), _CHUNK)
    if chunk:
        program.hear(chunk)
        return
    selector.unregister(program.output)
    try:
        program.mark_ended()
    except Exception:  # the only thread must not end
        LOG.exception("The end of a console's program at port %d", program.port)


NOTE = "ipmi_console_port"
"""Key of the node's last port, which is used again if it is free."""

_TRIES = 3
"""Ports to try if other programs take a port between check and start."""
_TAKEN = frozenset({errno.EADDRINUSE, errno.EACCES})


class IpmiSocatConsole(hardware.IpmiInterface, base.Console):
    """The console interface ``ipmitool-socat``."""

    by_program = True

    def __init__(self) -> None:
        self._programs = Programs()
        self._guard = threading.Lock()
        self._running: dict[str, Program] = {}
        self._ports: dict[str, int] = {}  # including those of starting consoles
        for program in _missing_programs():
            LOG.warning("%s", _program_missing(program))

    def validate(self, task: base.Task) -> None:
        """Check driver_info, and the programs that consoles need.

        :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/<key>``.
        :raises errors.LibraryMissing: naming the program that is not installed.
        """
        _console_settings(task)

    def start_console(self, task: base.Task) -> None:
        """Start the console; a running one is restarted.

        :raises errors.Unavailable: its port is taken.
        :raises errors.HardwareError: the BMC is unreachable, see `tool.run`; or socat does not
            listen.
        """
        node = _console_settings(task)
        self.let_go(task.node.uuid)
        # A wrong address or login is reported now, not when a client connects.
        tool.run(task, ("power", "status"))
        _end_session(task)
        program = self._started_program(task, node)
        task.keep(NOTE, program.port)

    def stop_console(self, task: base.Task) -> None:
        """Stop the console and disconnect its client."""
        self.let_go(task.node.uuid)
        _end_session(task)

    def get_console(self, task: base.Task) -> Json:
        """Return the address of the console.

        :raises errors.Unavailable: the console is about to be restarted.
        """
        program = self.proxies().get(task.node.uuid)
        if program is None or not program.running:
            raise errors.Unavailable(
                f"The console of node {task.node.uuid} is not reachable now: its conductor is "
                "about to restart it. Retry later."
            )
        address = config.CONF.console.socat_address
        host = f"[{address}]" if ":" in address else address
        return {"type": "socat", "url": f"tcp://{host}:{program.port}"}

    def proxies(self) -> Mapping[str, Program]:
        """See `base.Console`."""
        with self._guard:
            return dict(self._running)

    def let_go(self, node_uuid: str, proxy: base.Proxy | None = None) -> None:
        """See `base.Console`; the BMC ends the session after a minute of silence."""
        with self._guard:
            program = self._running.get(node_uuid)
            if program is None or (proxy is not None and proxy is not program):
                return
            del self._running[node_uuid], self._ports[node_uuid]
        program.end()

    def close(self) -> None:
        """Stop all consoles."""
        found = self.proxies()
        for program in found.values():
            program.release()
        for uuid in found:
            self.let_go(uuid)

    # -- starting ----------------------------------------------------------------------------

    def _started_program(self, task: base.Task, node: info.IpmiInfo) -> Program:
        uuid, settings = task.node.uuid, config.CONF.console
        terminal = shlex.join(tool.terminal(tool.located(node), cipher=tool.suite(node)))
        environment = {
            **tool.command_environment(node),
            TERMINAL.encode(): terminal.encode(),
        }
        tried: set[int] = set()
        for left in reversed(range(_TRIES)):
            port = self._claim_port(uuid, node.terminal_port, task.recall(NOTE), tried)
            tried.add(port)
            words = line(settings.socat_address, port, settings.terminal_timeout)
            try:
                program = self._programs.start(
                    words, port, environment, settings.subprocess_timeout
                )
            except OSError as why:
                self._release_port(uuid)
                if left and node.terminal_port is None and "in use" in str(why):
                    continue
                reason = f"The program {PROGRAM} at TCP port {port}: {why}"
                raise errors.HardwareError(reason=reason) from why
            except BaseException:
                self._release_port(uuid)
                raise
            with self._guard:
                self._running[uuid] = program
            return program
        raise AssertionError("the last try returns or raises")

    def _claim_port(
        self, uuid: str, wanted: int | None, before: object, tried: Collection[int]
    ) -> int:
        """Return a free port, noted as this node's."""
        address = config.CONF.console.socat_address
        with self._guard:
            taken = {*self._ports.values(), *tried}
            for port in candidates(wanted, before, config.CONF.console.port_range or ()):
                if port not in taken and _is_free(address, port):
                    self._ports[uuid] = port
                    return port
        which = "All ports of [console]port_range are" if wanted is None else f"Port {wanted} is"
        reason = (
            f"{which} taken at {address} on the conductor's machine. Stop other consoles, or give "
            "the node another driver_info/ipmi_terminal_port."
        )
        raise errors.Unavailable(reason)

    def _release_port(self, uuid: str) -> None:
        with self._guard:
            self._ports.pop(uuid, None)


def candidates(wanted: int | None, before: object, ranges: Sequence[range]) -> Iterator[int]:
    """Return the ports for a console, the best ones first.

    :param wanted: the required port, None for any.
    :param before: the node's last port.
    :param ranges: the configured ranges; each port is yielded once.
    """
    if wanted is not None:
        return iter((wanted,))
    found = dict.fromkeys(itertools.chain.from_iterable(ranges))
    first = [port for port in (before,) if isinstance(port, int) and port in found]
    return itertools.chain(first, (port for port in found if port not in first))


def _is_free(address: str, port: int) -> bool:
    """Return whether the port is free.

    :raises errors.HardwareError: this machine cannot listen at the address.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as socat
        try:
            probe.bind((address, port))
        except OSError as why:
            if why.errno in _TAKEN:
                return False
            reason = f"cannot listen at [console]socat_address {address}: {why.strerror}."
            raise errors.HardwareError(reason=reason) from why
    return True


def _console_settings(task: base.Task) -> info.IpmiInfo:
    node = tool.settings(task)
    if node.interface != info.VERSIONS["2.0"]:
        reason = "version 1.5 does not have serial over LAN; a console needs 2.0"
        raise errors.InvalidParameter(path="driver_info/ipmi_protocol_version", reason=reason)
    if node.terminal_port is None and not config.CONF.console.port_range:
        path = "driver_info/ipmi_terminal_port (or the option [console]port_range)"
        raise errors.MissingParameter(path=path)
    for program in _missing_programs():
        raise _program_missing(program)
    return node


def _missing_programs() -> list[str]:
    return [one for one in (PROGRAM, tool.PROGRAM) if shutil.which(one) is None]


def _program_missing(program: str) -> errors.LibraryMissing:
    return errors.LibraryMissing(
        library=f"the program {program}", purpose="consoles of the interface ipmitool-socat need"
    )


def _end_session(task: base.Task) -> None:
    """End the BMC's console session; without a session most BMCs refuse."""
    try:
        tool.run(task, ("sol", "deactivate"))
    except (errors.HardwareError, errors.InvalidRequest) as why:
        LOG.debug("Node %s: the BMC ended no console session: %s", task.node.uuid, why)
