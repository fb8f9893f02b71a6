"""A small RPC server with methods of the real contract, and some that misbehave on purpose."""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import datetime  # noqa: E402  threads.native() must run before anything imports an oslo library
import json  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import psutil  # noqa: E402

from ironic_lite import errors  # noqa: E402
from ironic_lite.core import config, context  # noqa: E402
from ironic_lite.core.context import Context  # noqa: E402
from ironic_lite.rpc import client, server, transport  # noqa: E402
from tests.support import prefork  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]

ONE, TWO, VICTIM, MAYFLY, NOBODY = ("localhost", *(f"localhost:{n}" for n in range(2, 6)))
"""Names of conductors, which are also addresses for ``direct://``; there is no NOBODY."""

SECONDS = 60.0
"""Longest wait for a condition."""

Serve = Callable[..., server.Server]
"""A function that starts a server in this process."""


class Endpoint:
    """``seen`` lists (method, facts) in order; a call of `held` waits for ``gate``."""

    def __init__(self, name: str = ONE) -> None:
        self.name = name
        self.seen: list[tuple[str, Any]] = []
        self.gate = threading.Event()

    def get_clean_steps(self, context: Context, *, node_uuid: str) -> list[dict[str, Any]]:
        self.seen.append(("get_clean_steps", node_uuid))
        return [{"step": "erase_devices", "priority": 10}]

    def change_node_power_state(
        self, context: Context, *, node_uuid: str, target: str, timeout: int | None = None
    ) -> None:
        self.seen.append((target, timeout))

    def continue_node_clean(self, context: Context, *, node_uuid: str) -> None:
        self.seen.append(("continue_node_clean", node_uuid))
        self.gate.wait(SECONDS)

    def note(self, context: Context, *, word: Any) -> None:
        self.seen.append(("note", word))

    def noted(self, context: Context) -> list[Any]:
        return [fact for method, fact in self.seen if method == "note"]

    def who(self, context: Context) -> str:
        return self.name

    def pid(self, context: Context) -> int:
        return os.getpid()

    def context_of(self, context: Context) -> dict[str, Any]:
        return {"type": type(context).__name__, **context.as_dict()}

    def echo(self, context: Context, *, word: Any) -> Any:
        return word

    def length(self, context: Context, *, word: str) -> int:
        return len(word)

    def moment(self, context: Context) -> Any:
        return {"at": datetime.datetime(2030, 1, 2, 3, 4, 5)}

    def refuse(self, context: Context, *, node_uuid: str) -> None:
        raise errors.NodeLocked(node=node_uuid, host=self.name)

    def break_down(self, context: Context) -> None:
        raise RuntimeError("the password is sesame")

    def leave(self, context: Context) -> None:
        sys.exit(3)

    def unsayable(self, context: Context) -> Any:
        return object()

    def large(self, context: Context, *, size: int) -> str:
        return "x" * size

    def held(self, context: Context, *, seconds: float = SECONDS) -> str:
        self.seen.append(("held", None))
        self.gate.wait(seconds)
        return "released"

    def busy(self, context: Context, *, calls: int = 1) -> bool:
        return self.seen.count(("held", None)) >= calls

    def _secret(self, context: Context) -> str:
        raise AssertionError("a private method was called")


def until(condition: Callable[[], Any], seconds: float = SECONDS) -> None:
    """Wait until ``condition()`` is true; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.005)


class Process:
    """A process of this module, forked by `prefork`; what is here is as in ``subprocess.Popen``.

    :param words: the name of one of `ROLES`, and its arguments.
    """

    def __init__(self, *words: str) -> None:
        theirs, ours = os.pipe()
        said, output = os.pipe()
        self.stdin = open(ours, "w", encoding="utf-8")  # noqa: SIM115
        self.stdout = open(said, encoding="utf-8")  # noqa: SIM115
        with (
            open(theirs, "rb") as stdin,
            open(output, "wb") as stdout,
            open(2, "wb", closefd=False) as stderr,
        ):
            self._program = prefork.start(
                ["rpc_conductor", *words],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        self.pid = self._program.pid

    def send_signal(self, number: signal.Signals) -> None:
        self._program.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        return self._program.wait(SECONDS)

    def communicate(self) -> str:
        """Close its standard input, wait for its end, and return what it has printed since."""
        if self.stdout.closed:
            return ""
        self.stdin.close()
        self.wait()
        with self.stdout:
            return self.stdout.read()


class Caller:
    """A process that calls the conductor ONE when it is told to."""

    def __init__(self, url: str, method: str, *, timeout: float = 60, **args: Any) -> None:
        self.process = Process("call", url, method, str(timeout), json.dumps(args))
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        """Let it call."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self) -> str:
        """Return what it was answered."""
        return self.process.communicate().strip()

    def kill(self) -> None:
        """End it now, if it lives."""
        self.process.kill()
        self.process.communicate()


def stop(process: Process) -> None:
    """Let a process stand still until it is sent SIGCONT."""
    process.send_signal(signal.SIGSTOP)
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)


# -- in the process --------------------------------------------------------------------------


def serve(url: str, host: str) -> None:
    """Serve until the parent ends, however that ends; print "ready" first."""
    one = server.Server(transport.build(url), host, Endpoint(host))
    one.start()
    print("ready", flush=True)
    sys.stdin.read()


def call(url: str, method: str, timeout: str, args: str) -> None:
    """Call a method of ONE after a line of the standard input, and print what it returns."""
    caller, ctxt = client.RpcClient(transport.build(url)), context.internal("test")
    caller.call(ctxt, "who", host=ONE)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print(caller.call(ctxt, method, host=ONE, timeout=float(timeout), **json.loads(args)))
    except Exception as why:
        print(repr(why))


ROLES: dict[str, Callable[..., None]] = {"serve": serve, "call": call}


def main() -> None:
    config.CONF([], default_config_files=[], default_config_dirs=[])
    _, role, *words = sys.argv
    ROLES[role](*words)
