"""Runs one program to its end, with limits on its time and output."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from ironic_lite.drivers import silence

OUTPUT_LIMIT = 1 << 20
"""Bytes read of each output; a BMC with a thousand sensors writes a third of that."""

_CHUNK = 65536
_LOOK = 0.5  # seconds between two checks whether a program may continue

_LEASH = ("--pdeathsig", "KILL", "--")
_LEASH_SECONDS = 10.0
_NOT_RUN = frozenset({126, 127})
"""Exit statuses of setpriv if it cannot run the program."""
_TOLD = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """Result of a program; ``late``, ``endless`` and ``barred`` are reasons why it was killed."""

    status: int
    out: str
    err: str
    late: bool = False
    endless: bool = False
    barred: bool = False


def run(
    line: Sequence[str],
    environment: Mapping[bytes, bytes],
    seconds: float,
    allowed: Callable[[], bool] = lambda: True,
) -> Ended:
    """Run a program without input or terminal; after ``seconds`` kill it and its children.

    It is also killed soon after ``allowed()`` turns false, and whenever this process ends.
    Otherwise a restarted conductor would use BMCs that an orphaned program still uses.

    :raises OSError: the program cannot be started.
    """
    end = time.monotonic() + seconds
    leash = _leash()
    with subprocess.Popen(
        [*leash, _program_path(line[0], environment), *line[1:]],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A process group to kill as one; without a terminal it cannot ask for a password.
        start_new_session=True,
    ) as process:
        streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
        texts: dict[IO[bytes], bytearray] = {stream: bytearray() for stream in streams}
        late = endless = barred = False
        try:
            if not _read_streams(texts, end, allowed):
                barred = not allowed()
                late = not barred
            elif any(len(text) > OUTPUT_LIMIT for text in texts.values()):
                endless = True
            else:
                late = not _wait_for_exit(process, end)
        finally:
            _kill_group(process)
    out, err = (bytes(texts[stream]).decode("utf-8", "replace") for stream in streams)
    if leash and process.returncode in _NOT_RUN:
        said = " ".join(err.split())[-_TOLD:]
        raise OSError(errno.ENOEXEC, said or f"it ended with {process.returncode}")
    return Ended(process.returncode, out, err, late, endless, barred)


@functools.cache
def _leash() -> tuple[str, ...]:
    """Return the command prefix that ends a program together with the thread that started it.

    Empty if setpriv of util-linux is not installed.
    """
    path = shutil.which("setpriv")
    if path is None:
        return ()
    words = (path, *_LEASH)
    try:
        # The setpriv of busybox lacks this option.
        subprocess.run(
            [*words, path, "--help"], capture_output=True, check=True, timeout=_LEASH_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return words


def _program_path(program: str, environment: Mapping[bytes, bytes]) -> str:
    """Return the path of a program.

    :raises FileNotFoundError: the program is not installed.
    """
    path = shutil.which(program, path=os.fsdecode(environment.get(b"PATH", b"")))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return path


def _read_streams(
    texts: dict[IO[bytes], bytearray], end: float, allowed: Callable[[], bool]
) -> bool:
    """Read until all streams end or one is too long; return False if time ran out before."""
    with selectors.DefaultSelector() as selector:
        for stream, text in texts.items():
            selector.register(stream, selectors.EVENT_READ, text)
        while selector.get_map():
            left = end - time.monotonic()
            if left <= 0 or not allowed():
                return False
            for key, _ in selector.select(min(left, _LOOK)):
                chunk, text = os.read(key.fd, _CHUNK), key.data
                text += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                elif len(text) > OUTPUT_LIMIT:
                    return True
    return True


def _wait_for_exit(process: subprocess.Popen[bytes], end: float) -> bool:
    try:
        process.wait(max(end - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the rest of the group. Its id is not reused while the leader is not reaped; after that
    there is nothing to kill."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class Slots:
    """A limit on the number of concurrent programs, and on those for silent BMCs among them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = 0
        self._silent = 0

    @contextlib.contextmanager
    def held(self, most: int, end: float, *, silent: bool = False) -> Iterator[bool]:
        """Wait for one of ``most`` slots until the time ``end``; yield whether there was one.

        :param silent: the program is for a BMC that did not answer last time; such programs share
            a part of the slots.
        """
        few = silence.share_of(most)
        with self._changed:
            free = self._changed.wait_for(
                lambda: self._taken < most and not (silent and self._silent >= few),
                max(end - time.monotonic(), 0),
            )
            self._taken += free
            self._silent += free and silent
        try:
            yield free
        finally:
            with self._changed:
                self._taken -= free
                self._silent -= free and silent
                self._changed.notify_all()
