"""Many silent BMCs: nodes of others are switched and watched as if there were none."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes
from tests.emulators import bmc
from tests.support import service
from tests.support.service import Service, until
from tests.support.silent_bmcs import SETTINGS, row, silent_bmcs

SILENT, GOOD = 48, 5
INTERVAL = 4
OPTIONS = f"""\
workers_pool_size = 20
sync_power_state_interval = {INTERVAL}
sync_power_state_workers = 4
power_state_sync_max_retries = 1000
force_power_state_during_sync = false
{SETTINGS}[redfish]
read_timeout = 2
"""
SLACK = 10.0
"""Seconds more than two intervals, on a machine with too little time."""
SECONDS = 20.0
"""Within which a power change of an answering machine ends while silent ones are driven."""
ON = {"target": "power on"}


@pytest.fixture
def up() -> Iterator[Service]:
    """The service, whose first comparison of power begins within an interval."""
    # The settings of other tests switch the comparison off.
    options = OPTIONS.replace("[redfish]\n", "[redfish]\nallowed_networks = 127.0.0.0/8\n")
    with service.service() as found:
        text = found.settings.read_text(encoding="utf-8")
        text = text.replace("sync_power_state_interval = 0\n", "")
        text = text.replace("[redfish]\nallowed_networks = 127.0.0.0/8\n", "")
        found.settings.write_text(text + options, encoding="utf-8")
        found.start()
        found.up()
        yield found


def enroll(up: Service, rows: list[dict[str, Any]]) -> None:
    """Add active nodes."""

    def write(conn: Connection) -> None:
        for one in rows:
            nodes.insert(conn, one)

    url = f"sqlite:///{up.folder}/state/ironic-lite.sqlite"
    with contextlib.closing(session.open_database(url)) as database:
        database.write(write)


class Storm:
    """A client that wants the silent machines switched, as often as it is let."""

    def __init__(self, url: str, uuids: list[str]) -> None:
        self._paths = [f"{url}/v1/nodes/{one}/states/power" for one in uuids]
        self._ended = threading.Event()
        self.answers: Counter[int] = Counter()
        self._threads = [
            threading.Thread(target=self._run, args=(first,), daemon=True) for first in range(4)
        ]

    def __enter__(self) -> Storm:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for one in self._threads:
            one.join(service.PATIENCE)

    def _run(self, first: int) -> None:
        with requests.Session() as session:
            session.trust_env = False
            while not self._ended.is_set():
                for path in self._paths[first::4]:
                    with contextlib.suppress(OSError):
                        self.answers[session.put(path, json=ON, timeout=60).status_code] += 1
                    if self._ended.wait(0.05):
                        return


def test_answering_machines_are_served_beside_many_silent_ones(up: Service) -> None:
    with silent_bmcs(SILENT) as infos, contextlib.ExitStack() as stack:
        machines = [stack.enter_context(bmc.serve()) for _ in range(GOOD)]
        for machine in machines:
            machine.tree[machine.system]["PowerState"] = "Off"
        silent = [row(info, power_state=None) for info in infos]
        good = [row(machine.driver_info) for machine in machines]
        enroll(up, [*silent, *good])
        changed = time.monotonic()
        machines[0].tree[machines[0].system]["PowerState"] = "On"
        noticed = functools.partial(_has_power, up, good[0]["uuid"], "power on")
        assert until(noticed, "the power change")
        seconds = time.monotonic() - changed
        print(f"a power change was noticed after {seconds:.1f} s of {INTERVAL} s")
        assert seconds < 2 * INTERVAL + SLACK
        until(lambda: _unread(up) == SILENT, "every silent machine has had its time")
        with Storm(up.url, [one["uuid"] for one in silent]) as storm:
            until(lambda: storm.answers[202] > 3 and storm.answers[503] > 3, "the share is full")
            taken = [_switched(up, one["uuid"]) for one in good[1:]]
        print(f"answering machines were switched in {max(taken):.1f} s; {dict(storm.answers)}")
        assert max(taken) < SECONDS


def _unread(up: Service) -> int:
    """Return the number of machines whose power could not be read, by the log."""
    text = up.running()[0].said()
    return len(set(re.findall(r"Node (\S+): power cannot be read", text)))


def _has_power(up: Service, node: str, state: str) -> bool:
    found = up.get(f"/v1/nodes/{node}?fields=power_state,target_power_state")
    return bool(found) and (found["power_state"], found["target_power_state"]) == (state, None)


def _switched(up: Service, node: str) -> float:
    """Switch a machine on by a request that is accepted at once; return the seconds it took."""
    begun = time.monotonic()
    answer = up.ask("PUT", f"/v1/nodes/{node}/states/power", ON)
    assert answer.status_code == 202, answer.text
    until(lambda: _has_power(up, node, "power on"), "the switched machine")
    return time.monotonic() - begun
