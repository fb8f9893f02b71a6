"""A small RPC server with methods of the real contract, and some that misbehave on purpose."""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()

import datetime  # noqa: E402  threads.native() must run before anything imports an oslo library
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

from ironic_lite import errors  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.core.context import Context  # noqa: E402
from ironic_lite.rpc import server, transport  # noqa: E402

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


def process(url: str, host: str) -> subprocess.Popen[str]:
    """Start a server in a process, which prints "ready" and lives until it is killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.rpc_conductor", url, host],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


CALLER = """
import json, sys
from tests.support import rpc_conductor
from ironic_lite.core import config, context
from ironic_lite.rpc import client, transport
url, method, timeout, args = sys.argv[1:]
config.CONF([], default_config_files=[], default_config_dirs=[])
caller, ctxt = client.Client(transport.build(url)), context.internal("test")
caller.call(ctxt, "who", host=rpc_conductor.ONE)
print("ready", flush=True)
sys.stdin.readline()
try:
    one = rpc_conductor.ONE
    print(caller.call(ctxt, method, host=one, timeout=float(timeout), **json.loads(args)))
except Exception as why:
    print(repr(why))
"""


class Caller:
    """A process that calls the conductor ONE when it is told to."""

    def __init__(self, url: str, method: str, *, timeout: float = 60, **args: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CALLER, url, method, str(timeout), json.dumps(args)],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        """Let it call."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self) -> str:
        """Return what it was answered."""
        return self.process.communicate(timeout=SECONDS)[0].strip()

    def kill(self) -> None:
        """End it now, if it lives."""
        self.process.kill()
        self.process.communicate()


def stop(process: subprocess.Popen[str]) -> None:
    """Let a process stand still until it is sent SIGCONT."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def main(url: str, host: str) -> None:
    config.CONF([], default_config_files=[], default_config_dirs=[])
    one = server.Server(transport.build(url), host, Endpoint(host))
    one.start()
    print("ready", flush=True)
    # Ends with the parent, however that ends.
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
