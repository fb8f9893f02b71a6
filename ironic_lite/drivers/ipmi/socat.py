"""Console programs: socat at one TCP port each, and the program that socat starts.

Each is a process group led by a shell that reads from a pipe of this process. When the pipe ends,
for any reason, the shell kills the group, so nothing continues to serve for a dead conductor. One
thread reads the messages of all socat processes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

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
