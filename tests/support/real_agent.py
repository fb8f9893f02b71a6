"""A machine whose ramdisk runs the real agent, for tests of drivers."""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from ironic_lite.drivers import base
from tests.emulators.agent import process, service
from tests.support.fake_task import node

MAC = "52:54:00:00:00:01"
AT = datetime.datetime(2026, 1, 1)

Known = tuple[process.Agent, base.Agent]


@contextlib.contextmanager
def running(*, loop: bool = False, authority: pathlib.Path | None = None) -> Iterator[Known]:
    """Give a machine whose agent has sent a heartbeat.

    :param loop: whether its disk is a loop device, and there is a second one.
    :param authority: whose certificates the agent trusts.
    """
    with process.agent([MAC], loop=loop) as machine, service.serve(node().uuid) as heard:
        machine.api = heard.url
        if loop:
            machine.add_disk("F2")
        if authority is not None:
            machine.trust(authority)
        machine.start()
        beat = heard.beat()
        yield (
            machine,
            base.Agent(
                url=beat["callback_url"],
                token=beat["agent_token"],
                verify_ca=beat["agent_verify_ca"],
                version=beat["agent_version"],
                heard_at=AT,
            ),
        )
        machine.kill()


def until(ask: Callable[[], Any]) -> Any:
    """Return the first true value of ``ask()``."""
    end = time.monotonic() + process.PATIENCE
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(0.02)
    raise AssertionError("never became true")
